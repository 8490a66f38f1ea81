-- What every script with ballots goes on with. Behind the locks, in their order, are their fences.

-- The largest ballot that was accepted for any of the locks, as it stands there, and that of each.
local function look_at_fences(count)
  local largest, each = false, {}
  for i = 1, count do
    local fence = redis.call('GET', KEYS[count + i])
    each[i] = tonumber(fence or '0')
    if fence and (not largest or each[i] > tonumber(largest)) then
      largest = fence
    end
  end
  return largest, each
end

-- What was accepted only grows, and is remembered anew.
local function raise_fences(count, each, ballot, ttl)
  for i = 1, count do
    if tonumber(ballot) > each[i] then
      redis.call('SET', KEYS[count + i], ballot, 'PX', ttl)
    else
      redis.call('PEXPIRE', KEYS[count + i], ttl)
    end
  end
end

