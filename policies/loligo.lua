-- Loligo's own policy: leave things together while there is room, spread what does not fit, bring it back when it is calm.
-- It looks at how busy ranks are, not at counts of requests: a count says nothing about how much more fits.
--  * A rank is overloaded when it was at work more than HOT of its time for HOT_TICKS ticks in a row; full ones count twice, for what
--    is to move grows while they wait. It then gives one other rank
--    what brings it down to AIM, but no more than makes both equally busy, and only if that is worth a move (WORTH).
--  * Which rank gets it is worked out for all overloaded ranks by each of them, from the same news: the busiest chooses first,
--    no rank is chosen twice. The fullest one in which it fits is chosen, so that few ranks are in use. News that differ by less
--    than STEP percent are the same to this plan: ranks decide at different moments, and must not plan differently for noise.
--  * After a move there is a pause: what was moved shows in the news only later.
--  * When it and the rank that a piece came from have been nearly idle together for CALM_TICKS ticks, the pieces go back. Ranks do
--    that one after the other, so that the one they come back to is not surprised.
-- Between CALM and HOT nothing moves at all, so a move never gives reason for its opposite.
api = 1
state = 0
minimum_offload = 0

local HOT, HOT_TICKS = 75, 3
local FULL = 95          -- above it it is not known how much more is asked for
local AIM = 60
local ROOM = 60          -- who is busier is given nothing
local WORTH = 5
local STEP = 5
local CALM, CALM_TICKS = 50, 6
local PAUSE_TICKS = 1

-- What `when` decides and `where` tells: to whom, and how much.
local goal, much = nil, 0

function metaload(IRD, IWR, READDIR, FETCH, STORE)
    return IRD + 2*IWR + READDIR + 2*FETCH + 4*STORE
end

-- Percent of the time at work; so are the targets.
function mdsload(i)
    return MDSs[i].busy
end

-- How busy a rank is, without noise.
local function about(i)
    local busy = MDSs[i].busy
    return if busy > FULL then 100 else math.floor(busy / STEP + 0.5) * STEP
end

-- What percent of `from` are percent of `to`.
local function ratio(from, to)
    local a, b = MDSs[from].capacity, MDSs[to].capacity
    return if a > 0 and b > 0 then a / b else 1
end

-- How much `from` gives `to`.
local function amount(from, to)
    local mine, its, factor = MDSs[from].busy, MDSs[to].busy, ratio(from, to)
    local even = (mine - its) / (1 + factor)
    return if mine > FULL then even else min(mine - AIM, even)
end

-- The fullest of the free ones in which it fits; if there is none, the emptiest.
local function choose(from, taken)
    local fullest, emptiest = nil, nil
    for to = 1, #MDSs do
        local its = MDSs[to].busy
        if to ~= from and MDSs[to].open and its < ROOM and not taken[to] then
            local fits = its + (MDSs[from].busy - AIM) * ratio(from, to) <= AIM
            if fits and (not fullest or about(to) > about(fullest)) then
                fullest = to
            end
            if not emptiest or about(to) < about(emptiest) then
                emptiest = to
            end
        end
    end
    return if MDSs[from].busy <= FULL and fullest then fullest else emptiest
end

local function overloaded()
    local list = {}
    for i = 1, #MDSs do
        if MDSs[i].busy > HOT then
            table.insert(list, i)
        end
    end
    -- The sort is stable: equally busy ones stay in the order of their ranks.
    table.sort(list, function(a, b) return about(a) > about(b) end)
    return list
end

-- Who gets how much from this rank in everybody's plan.
local function spread()
    local taken = {}
    for _, from in ipairs(overloaded()) do
        local to = choose(from, taken)
        if to then
            taken[to] = true
        end
        if from == whoami then
            if to and amount(from, to) >= WORTH then
                return to, amount(from, to)
            end
            return nil
        end
    end
    return nil
end

-- The first rank that can have back what came from it, now or once it is open again.
local function calm_home(now)
    for i = 1, #MDSs do
        local open = MDSs[i].open or not now
        if i ~= whoami and home[i] > 0 and open and MDSs[i].busy + MDSs[whoami].busy < CALM then
            return i
        end
    end
    return nil
end

function when()
    local state = RDstate()
    local hot, pause, calm = state % 10, math.floor(state / 10) % 10, math.floor(state / 100)
    local back = calm_home(true)
    calm = if calm_home(false) then calm + 1 else 0
    local more = if MDSs[whoami].busy > FULL then 2 else 1
    hot = if MDSs[whoami].busy > HOT and pause == 0 then min(hot + more, HOT_TICKS) else 0
    if pause > 0 then
        pause = pause - 1
    elseif hot >= HOT_TICKS then
        goal, much = spread()
    elseif back and calm >= CALM_TICKS + 2 * (whoami - 1) then
        goal, much = back, home[back]
    end
    if goal then
        hot, pause = 0, PAUSE_TICKS
    end
    WRstate(hot + 10 * pause + 100 * min(calm, 100000))
    return goal ~= nil
end

function where()
    targets[goal] = min(much, MDSs[whoami].load)
end

howmuch = {"best", "big_first", "big_small"}
