-- Greedy Spill that scales (after the simulator that came with Mantle, not in the paper): every rank works out what all ranks
-- do in this round and does its own part. In the order of the ranks each one with load takes the first idle rank behind it
-- (wrapping) that no earlier one has taken, and gives it half. Each round doubles the ranks in use: exactly even for powers
-- of two. Ranks that take nothing now are passed over.
api = 1

local IDLE = 0.01

function metaload(IRD, IWR, READDIR, FETCH, STORE)
    return IWR
end

function mdsload(i)
    return MDSs[i]["all"]
end

function when()
    local taken = {}
    for from = 1, #MDSs do
        if MDSs[from]["load"] > IDLE then
            for step = 1, #MDSs - 1 do
                local to = (from + step - 1) % #MDSs + 1
                if MDSs[to]["load"] < IDLE and MDSs[to].open and not taken[to] then
                    taken[to] = true
                    if from == whoami then
                        goal = to
                        return true
                    end
                    break
                end
            end
        end
        if from == whoami then
            return false
        end
    end
    return false
end

function where()
    targets[goal] = MDSs[whoami]["load"] / 2
end

howmuch = {"half"}
