-- Loligo's own policy: leave things together while there is room, spread them when requests wait for each other, bring them back
-- when it is calm.
-- It looks at how busy ranks are, not at counts of requests: a count says nothing about how much more fits.
--  * A rank is overloaded when it was at work more than HOT of its time for HOT_TICKS ticks in a row: from there on a request waits as
--    long for those before it as it takes itself (the queue of M/M/1). Full ones (FULL) count twice, for what is to move grows while
--    they wait, and it is not known how much more is asked for. It shares with as many of the emptiest others as leave none of them
--    with more than AIM, BREADTH at most, so that all of them are equally busy. Only what is worth a move (WORTH) is moved. What one
--    client works in is not torn apart to come nearer to that than need_min: it would be as slow as the slower of two ranks.
--  * Which ranks get it is worked out for all overloaded ranks by each of them, from the same news: the busiest chooses first,
--    no rank is chosen twice, and all leave each other their part of the free ones. News that differ by less than STEP percent
--    are the same to this plan: ranks decide at different moments, and must not plan differently for noise.
--  * While it becomes busier by more than RISE from one tick to the next it waits: one busy tick among calm ones is no reason to move.
--  * After a move there is a pause: what was moved shows in the news only later.
--  * When it and the rank that a piece came from have been nearly idle together for CALM_TICKS ticks, the pieces go back. Ranks do
--    that one after the other, so that the one they come back to is not surprised.
-- Who gets something is less busy by GAP at least, and between CALM and HOT nothing moves at all: so a move never gives reason for its
-- opposite.
api = 1
state = 0
minimum_offload = 0
need_min = 0.7

local HOT, HOT_TICKS = 50, 3
local FULL = 95
local AIM = 20
local GAP = 30
local BREADTH = 4
local WORTH = 5
local RISE = 15
local STEP = 5
local CALM, CALM_TICKS = 30, 6
local PAUSE_TICKS = 1

-- What `when` decides and `where` tells: who gets how much.
local goals = nil

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

-- Whether a rank is more than full: how much is asked for is not known.
local function is_full(i)
    return MDSs[i].busy > FULL
end

-- Who could get something, the emptiest first.
local function free_beside(from, taken)
    local free = {}
    for to = 1, #MDSs do
        if MDSs[to].open and not taken[to] and MDSs[to].busy <= MDSs[from].busy - GAP and not is_full(to) then
            table.insert(free, to)
        end
    end
    -- The sort is stable: equally busy ones stay in the order of their ranks.
    table.sort(free, function(a, b) return about(a) < about(b) end)
    return free
end

-- How much each of these, at most so many, gets so that all are equally busy.
local function share(from, free, most)
    local mine = MDSs[from].busy
    local sum, parts, some = mine, 1, {}
    for at = 1, min(most, #free) do
        local to = free[at]
        -- It would get nothing: all before it are emptier even when all are equally busy.
        if MDSs[to].busy > sum / parts - WORTH then
            break
        end
        local r = ratio(from, to)
        sum, parts = sum + MDSs[to].busy / r, parts + 1 / r
        table.insert(some, to)
    end
    local gets = {}
    for _, to in ipairs(some) do
        gets[to] = (sum / parts - MDSs[to].busy) / ratio(from, to)
    end
    return gets
end

local function overloaded()
    local list = {}
    for i = 1, #MDSs do
        if MDSs[i].busy > HOT then
            table.insert(list, i)
        end
    end
    table.sort(list, function(a, b) return about(a) > about(b) end)
    return list
end

-- Who gets how much from this rank in everybody's plan; none: nobody anything.
local function spread()
    local list, taken = overloaded(), {}
    for at, from in ipairs(list) do
        local free = free_beside(from, taken)
        local most = min(BREADTH, math.ceil(MDSs[from].busy / AIM) - 1)
        local gets = share(from, free, max(1, min(most, math.floor(#free / (#list - at + 1)))))
        local worth = nil
        for to, amount in pairs(gets) do
            taken[to] = true
            if amount >= WORTH then
                worth = worth or {}
                worth[to] = amount
            end
        end
        if from == whoami then
            return worth
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
    local hot, pause, calm = state % 10, math.floor(state / 10) % 10, math.floor(state / 100) % 1000000
    local busy, before = MDSs[whoami].busy, math.floor(state / 100000000)
    local back = calm_home(true)
    calm = if calm_home(false) then calm + 1 else 0
    local more = if busy > FULL then 2 else 1
    hot = if busy > HOT and pause == 0 then min(hot + more, HOT_TICKS) else 0
    if pause > 0 then
        pause = pause - 1
    elseif hot >= HOT_TICKS then
        -- One busy tick is no reason: when it rises it is waited how far.
        goals = if busy <= before + RISE then spread() else nil
    elseif back and calm >= CALM_TICKS + 2 * (whoami - 1) then
        goals = {[back] = home[back]}
    end
    if goals then
        hot, pause = 0, PAUSE_TICKS
    end
    WRstate(hot + 10 * pause + 100 * min(calm, 100000) + 100000000 * math.floor(min(busy, 100)))
    return goals ~= nil
end

function where()
    local left = MDSs[whoami].load
    for to, amount in pairs(goals) do
        targets[to] = min(amount, left)
        left = left - targets[to]
    end
end

howmuch = {"best"}
