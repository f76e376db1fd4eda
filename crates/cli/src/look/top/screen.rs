//! The screen of `loligo top`: a head that stays, a table below it, keys. Drawn by ratatui. Not here: what the tables hold (`tables`), and
//! the looks at the server.

use std::time::{Duration, Instant};

use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Alignment, Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell as Shown, Clear, Paragraph, Row, Table};

use super::tables::{Cell, View};
use super::{Look, Looker, page};
use crate::output::{Failure, Outcome};

/// Shortest and longest time between two looks that the keys choose.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));

const HELP: &str = "\
 o c d r   operations, clients, directories, ranks
 Tab       the next table
 s S       sort by the next column, by the one before
 Up Down   scroll; also Page Up, Page Down, Home, End
 + -       look more often, less often
 Space     hold the screen, go on
 q Esc     end
 any key   close this";

/// State of the screen.
struct Screen {
    view: View,
    /// Sort column of each view.
    by: [usize; View::ALL.len()],
    /// First row shown.
    top: usize,
    interval: Duration,
    held: bool,
    help: bool,
}

/// Effect of a key.
#[derive(PartialEq, Debug)]
enum After {
    Nothing,
    Draw,
    /// Another table needs other numbers.
    Look,
    End,
}

impl Screen {
    fn new(interval: Duration) -> Screen {
        Screen {
            view: View::Operations,
            by: View::ALL.map(View::sorted_by),
            top: 0,
            interval,
            held: false,
            help: false,
        }
    }

    fn by(&mut self) -> &mut usize {
        &mut self.by[View::ALL.iter().position(|view| *view == self.view).unwrap_or(0)]
    }

    fn show(&mut self, view: View) -> After {
        (self.view, self.top) = (view, 0);
        After::Look
    }

    fn key(&mut self, key: KeyEvent) -> After {
        let ends = key.modifiers.contains(KeyModifiers::CONTROL) && matches!(key.code, KeyCode::Char('c' | 'd'));
        if ends || key.code == KeyCode::Char('q') {
            return After::End;
        }
        if self.help {
            self.help = false;
            return After::Draw;
        }
        let columns = self.view.columns().len();
        match key.code {
            KeyCode::Esc => return After::End,
            KeyCode::Char('h' | '?') => self.help = true,
            KeyCode::Tab => return self.show(self.view.next()),
            KeyCode::Char('s') => *self.by() = (*self.by() + 1) % columns,
            KeyCode::Char('S') => *self.by() = (*self.by() + columns - 1) % columns,
            KeyCode::Char(' ') => self.held = !self.held,
            KeyCode::Char('+') => self.interval = (self.interval / 2).max(INTERVALS.0),
            KeyCode::Char('-') => self.interval = (self.interval * 2).min(INTERVALS.1),
            KeyCode::Up => self.top = self.top.saturating_sub(1),
            KeyCode::Down => self.top += 1,
            KeyCode::PageUp => self.top = self.top.saturating_sub(20),
            KeyCode::PageDown => self.top += 20,
            KeyCode::Home => self.top = 0,
            KeyCode::End => self.top = usize::MAX,
            KeyCode::Char(letter) => match View::ALL.into_iter().find(|view| view.key() == letter) {
                Some(view) => return self.show(view),
                None => return After::Nothing,
            },
            _ => return After::Nothing,
        }
        After::Draw
    }

    fn draw(&mut self, frame: &mut Frame<'_>, last: &Look, now: &Look) {
        let by = *self.by();
        let head = page::head(last, now);
        // A small screen keeps room for some rows.
        let lines = (head.lines().count() as u16).min(frame.area().height.saturating_sub(6).max(2));
        let [above, tabs, below, foot] = Layout::vertical([
            Constraint::Length(lines),
            Constraint::Length(1),
            Constraint::Min(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(Paragraph::new(Text::raw(head)), above);
        frame.render_widget(Line::from_iter(View::ALL.iter().map(|view| self.tab(*view))), tabs);
        let rows = self.view.rows(last, now, by);
        let room = usize::from(below.height.saturating_sub(1)).max(1);
        self.top = self.top.min(rows.len().saturating_sub(room));
        frame.render_widget(self.table(&rows, by), below);
        let state = if self.held { "held" } else { "live" };
        let text = format!(
            "{state}, every {:.1} s; {} of {} rows; s: sort, Tab: next table, ?: keys, q: end",
            self.interval.as_secs_f64(),
            rows.len().min(room),
            rows.len()
        );
        frame.render_widget(Line::styled(text, Modifier::DIM), foot);
        if self.help {
            let area = frame.area().intersection(below);
            frame.render_widget(Clear, area);
            frame.render_widget(Paragraph::new(HELP), area);
        }
    }

    fn tab(&self, view: View) -> Span<'static> {
        let style = if view == self.view { Style::from(Modifier::REVERSED) } else { Style::default() };
        Span::styled(format!(" {} ", view.name()), style)
    }

    fn table(&self, rows: &[Vec<Cell>], by: usize) -> Table<'static> {
        let titles = self.view.columns();
        let cell = |cell: &Cell| {
            let side = if cell.is_number() { Alignment::Right } else { Alignment::Left };
            Shown::from(Line::from(cell.text().to_string()).alignment(side))
        };
        let first = rows.first();
        let title = |(at, title): (usize, &&'static str)| {
            let is_number = first.is_some_and(|row| row[at].is_number());
            let style = if at == by { Modifier::BOLD | Modifier::UNDERLINED } else { Modifier::BOLD };
            let side = if is_number { Alignment::Right } else { Alignment::Left };
            Shown::from(Line::from(*title).alignment(side)).style(style)
        };
        let widths = titles.iter().enumerate().map(|(at, title)| {
            let shown = rows.iter().map(|row| row[at].text().chars().count()).max().unwrap_or(0);
            let width = u16::try_from(shown.max(title.len())).unwrap_or(u16::MAX);
            // The first column, a name, gives way.
            if at == 0 { Constraint::Max(width) } else { Constraint::Length(width) }
        });
        let shown = rows.iter().skip(self.top).map(|row| Row::new(row.iter().map(cell)));
        Table::new(shown, widths).header(Row::new(titles.iter().enumerate().map(title))).column_spacing(2)
    }
}

/// Shows it until it is told to end, or `count` times.
pub(super) fn run(mut looker: Looker, interval: Duration, count: u64) -> Outcome {
    let failed = |e: std::io::Error| Failure::new(format!("the terminal: {e}"));
    let mut screen = Screen::new(interval);
    let mut last = looker.look(true)?;
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let ended = (|| {
        let mut shown = 0;
        let mut now: Option<Look> = None;
        let mut next = last.at + screen.interval.min(INTERVALS.0);
        loop {
            if !screen.held && Instant::now() >= next {
                let look = looker.look(true)?;
                if let Some(before) = now.take() {
                    last = before;
                }
                next = look.at + screen.interval;
                now = Some(look);
                shown += 1;
            }
            if let Some(now) = &now {
                terminal.draw(|frame| screen.draw(frame, &last, now)).map_err(failed)?;
            }
            if count > 0 && shown == count {
                return Ok(());
            }
            loop {
                let left = if screen.held { INTERVALS.1 } else { next.saturating_duration_since(Instant::now()) };
                if !event::poll(left).map_err(failed)? {
                    break;
                }
                let after = match event::read().map_err(failed)? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => screen.key(key),
                    Event::Resize(..) => After::Draw,
                    _ => After::Nothing,
                };
                match after {
                    After::Nothing => {}
                    After::End => return Ok(()),
                    After::Look | After::Draw => break,
                }
            }
        }
    })();
    ratatui::restore();
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(screen: &mut Screen, code: KeyCode) -> After {
        screen.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn keys_choose_the_table_the_column_and_the_end() {
        let mut screen = Screen::new(Duration::from_secs(1));
        assert_eq!(press(&mut screen, KeyCode::Char('c')), After::Look);
        assert_eq!((screen.view, *screen.by()), (View::Clients, 1));
        press(&mut screen, KeyCode::Char('S'));
        press(&mut screen, KeyCode::Char('S'));
        assert_eq!(*screen.by(), View::Clients.columns().len() - 1);
        press(&mut screen, KeyCode::Char('s'));
        assert_eq!(*screen.by(), 0);
        press(&mut screen, KeyCode::Tab);
        assert_eq!((screen.view, *screen.by()), (View::Directories, 1), "each table has its own column");
        press(&mut screen, KeyCode::Char('?'));
        assert_eq!(
            (press(&mut screen, KeyCode::Esc), screen.help),
            (After::Draw, false),
            "the first key closes the help"
        );
        assert_eq!(press(&mut screen, KeyCode::Char('x')), After::Nothing);
        assert_eq!(press(&mut screen, KeyCode::Esc), After::End);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(screen.key(interrupt), After::End);
    }

    #[test]
    fn the_interval_stays_within_its_bounds() {
        let mut screen = Screen::new(Duration::from_secs(1));
        (0..20).for_each(|_| _ = press(&mut screen, KeyCode::Char('+')));
        assert_eq!(screen.interval, INTERVALS.0);
        (0..20).for_each(|_| _ = press(&mut screen, KeyCode::Char('-')));
        assert_eq!(screen.interval, INTERVALS.1);
    }
}
