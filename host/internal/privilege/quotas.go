package privilege

import (
	"maps"
	"slices"

	"toolhost.dev/host/internal/quota"
)

// quotas compares the limits of fields and principals. A subject that loses its own limits counts as
// unlimited even if the limits for all subjects now apply, because they can be higher.
func (c *comparison) quotas() {
	for _, s := range slices.Sorted(maps.Keys(c.old.Quotas)) {
		old, now := c.old.Quotas[s], c.now.Quotas[s]
		name := "quota of " + string(s)
		c.limit("parallel in the "+name, uint64(old.Parallel), uint64(now.Parallel))
		c.limit("calls_per_minute in the "+name, uint64(old.CallsPerMinute), uint64(now.CallsPerMinute))
		c.limit("bytes_per_minute in the "+name, old.BytesPerMinute, now.BytesPerMinute)
		c.when(old.Breaker != (quota.Breaker{}) && now.Breaker == (quota.Breaker{}), "the %s has no breaker", name)
	}
}
