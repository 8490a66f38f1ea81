-- KEYS locks  ARGV token ttl_ms
-- All or none. Answers 1: granted, {0, pttl, {place, pttl, ..}}: these are somebody else's.
local ours, free, longest, mistyped, others = look(#KEYS)
if mistyped then
  return mistyped
end
if longest then
  delete(ours)
  return {0, longest, others}
end
lengthen(ours)
set(free)
return 1
