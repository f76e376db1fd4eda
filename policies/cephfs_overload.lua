-- CephFS's own balancer with patience (Mantle, Figure 5.17): a rank exports from the third tick in a row on in which it is above
-- the average. Weighing and `where` are those of cephfs.toml, which a policy gets that leaves them out.
-- Corrected: the listing has `else then` and an `end` in the wrong place.
api = 1
state = 0

function when()
    if MDSs[whoami]["load"] > total / #MDSs then
        local ticks = RDstate() + 1
        WRstate(ticks)
        return ticks > 2
    end
    WRstate(0)
    return false
end

howmuch = {"big_first"}
