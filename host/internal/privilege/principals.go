package privilege

import (
	"maps"
	"slices"
	"strings"

	"toolhost.dev/host/internal/config"
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
	c.workspaces(name+" may work in", old.Workspaces, now.Workspaces)
	for _, id := range now.Users {
		c.when(!slices.Contains(old.Users, id), "user %d is %s", id, name)
	}
	c.when(now.Issuer != "" && (now.Issuer != old.Issuer || !maps.Equal(now.Claims, old.Claims)),
		"different tokens are accepted for %s", name)
	c.out = append(c.out, config.PrincipalIncreases(old, now)...)
}

// workspaces compares the workspaces of a principal. An empty list stands for the workspace in which the host was
// started.
func (c *comparison) workspaces(what string, old, now []string) {
	switch added := config.Lost(config.Lost(now, old), []string{nowhere}); {
	case len(now) == 0:
		c.when(len(old) > 0, "%s another workspace", what)
	case len(added) > 0:
		c.when(true, "%s %s", what, strings.Join(added, ", "))
	}
}
