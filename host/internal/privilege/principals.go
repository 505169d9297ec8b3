package privilege

import (
	"maps"
	"slices"
	"strings"

	"toolhost.dev/host/internal/principal"
)

// principals compares the lists of principals and the permissions of each principal.
func (c *comparison) principals(old, now principal.Blocks) {
	for _, i := range now.Issuers {
		at := slices.IndexFunc(old.Issuers, func(o principal.Issuer) bool { return o.Name == i.Name })
		c.when(at < 0, "tokens of issuer %s are accepted", i.Name)
		c.when(at >= 0 && old.Issuers[max(at, 0)] != i, "issuer %s has another url, audience, resource or list of scopes", i.Name)
	}
	for _, b := range now.Principals {
		at := slices.IndexFunc(old.Principals, func(o principal.Block) bool { return o.Name == b.Name })
		if at < 0 {
			c.when(true, "there is a principal %s", b.Name)
			continue
		}
		c.principal(&old.Principals[at], &b)
	}
}

func (c *comparison) principal(old, now *principal.Block) {
	name := "principal " + now.Name
	if added := now.Rights &^ old.Rights; added != 0 {
		c.when(true, "%s has the right %s", name, strings.Join(added.Names(), ", "))
	}
	c.wider(name+" may work in", "another workspace", old.Workspaces, now.Workspaces, len(old.Workspaces) == 0)
	c.wider(name+" may call", "all tools", old.Tools, now.Tools, false)
	c.wider(name+" may call tools of", "all fields", old.Fields, now.Fields, false)
	c.wider(name+" answers for", "all principals", old.AnswersFor, now.AnswersFor, false)
	for _, id := range now.Users {
		c.when(!slices.Contains(old.Users, id), "user %d is %s", id, name)
	}
	c.when(now.Issuer != "" && (now.Issuer != old.Issuer || !maps.Equal(now.Claims, old.Claims)), "different tokens are accepted for %s", name)
	c.limit("calls of "+name, uint64(old.MaxCalls), uint64(now.MaxCalls))
	c.limit("sessions of "+name, uint64(old.MaxSessions), uint64(now.MaxSessions))
	c.limit("bytes of output files of "+name, uint64(old.MaxOutput), uint64(now.MaxOutput))
}

// wider records a change if the list "now" permits values that the list "old" did not permit. A nil list
// permits all values. If the argument "narrow" is true, a non-empty list permits more than a nil list.
func (c *comparison) wider(what, all string, old, now []string, narrow bool) {
	if now != nil {
		now = lost(now, []string{nowhere})
	}
	switch added := lost(now, old); {
	case narrow && len(now) > 0:
		c.when(true, "%s %s", what, strings.Join(now, ", "))
	case narrow:
	case now == nil && old != nil:
		c.when(true, "%s %s", what, all)
	case old != nil && len(added) > 0:
		c.when(true, "%s %s", what, strings.Join(added, ", "))
	}
}
