-- KEYS locks  ARGV token ttl_ms
-- All or none: where one is not ours any more, the others go.
local ours = look(#KEYS)
if #ours < #KEYS then
  delete(ours)
  return 0
end
lengthen(ours)
return 1
