package config

import (
	"fmt"
	"maps"
	"slices"

	"toolhost.dev/host/internal/principal"
)

// Increases describes each attribute that permits more in the configuration now than in the configuration old. It
// omits the attributes that package privilege compares together with others.
func Increases(old, now *Config) []string {
	out := slices.Concat(
		sandboxTable.increases("sandbox", &old.Sandbox, &now.Sandbox),
		workspaceTable.increases("workspace", &old.Workspace, &now.Workspace),
		hostTable.increases("host", &old.Host, &now.Host), auditTable.increases("audit", &old.Audit, &now.Audit),
		trustTable.increases("trust", &old.Trust, &now.Trust),
		reloadTable.increases("reload", &old.Reload, &now.Reload),
		permissionsTable.increases("permissions", &old.Permissions, &now.Permissions),
	)
	for _, name := range toolNames(old, now) {
		was, is := old.Tools[name], now.Tools[name]
		out = append(out, toolTable.increases(fmt.Sprintf("tool %q", name), &was, &is)...)
	}
	// A subject that loses its own limits counts as unlimited even if the limits for all subjects now apply, because
	// they can be higher.
	for _, s := range slices.Sorted(maps.Keys(old.Quotas)) {
		was, is, name := old.Quotas[s], now.Quotas[s], fmt.Sprintf("quota %q", s)
		out = append(append(out, quotaTable.increases(name, &was, &is)...),
			breakerTable.increases(name+".breaker", &was.Breaker, &is.Breaker)...)
	}
	for i := range now.Endpoints {
		is := &now.Endpoints[i]
		if was := old.endpoint(is.Name); was != nil {
			out = append(out, endpointTable.increases(fmt.Sprintf("endpoint %q", is.Name), was, is)...)
		}
	}
	return out
}

// Restrict takes from the configuration out what the attributes in the configuration now do not permit. It describes
// each change. For the attributes that it considers, see [Increases]. Package privilege restricts quotas.
func Restrict(out, now *Config) []string {
	taken := slices.Concat(
		sandboxTable.restrict("sandbox", &out.Sandbox, &now.Sandbox),
		workspaceTable.restrict("workspace", &out.Workspace, &now.Workspace),
		hostTable.restrict("host", &out.Host, &now.Host), auditTable.restrict("audit", &out.Audit, &now.Audit),
		trustTable.restrict("trust", &out.Trust, &now.Trust), reloadTable.restrict("reload", &out.Reload, &now.Reload),
		permissionsTable.restrict("permissions", &out.Permissions, &now.Permissions),
	)
	out.Tools = maps.Clone(out.Tools)
	for _, name := range toolNames(out, now) {
		t, by := out.Tools[name], now.Tools[name]
		if more := toolTable.restrict(fmt.Sprintf("tool %q", name), &t, &by); len(more) > 0 {
			if out.Tools == nil {
				out.Tools = make(map[string]Tool)
			}
			out.Tools[name], taken = t, append(taken, more...)
		}
	}
	var endpoints []Endpoint
	for _, e := range out.Endpoints {
		by := now.endpoint(e.Name)
		if by == nil {
			taken = append(taken, fmt.Sprintf("the endpoint %s is removed", e.Name))
			continue
		}
		taken = append(taken, endpointTable.restrict(fmt.Sprintf("endpoint %q", e.Name), &e, by)...)
		endpoints = append(endpoints, e)
	}
	out.Endpoints = endpoints
	return taken
}

// PrincipalIncreases is [Increases] for one principal.
func PrincipalIncreases(old, now *principal.Block) []string {
	name := fmt.Sprintf("principal %q", now.Name)
	return append(principalTable.increases(name, old, now), principalLimitsTable.increases(name+".limits", old, now)...)
}

// RestrictPrincipal is [Restrict] for one principal.
func RestrictPrincipal(out, now *principal.Block) []string {
	name := fmt.Sprintf("principal %q", now.Name)
	return append(principalTable.restrict(name, out, now), principalLimitsTable.restrict(name+".limits", out, now)...)
}

// toolNames returns the names of the tools that have a block in one of the configurations.
func toolNames(a, b *Config) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.AppendSeq(slices.Collect(maps.Keys(a.Tools)),
		maps.Keys(b.Tools)))))
}

func (c *Config) endpoint(name string) *Endpoint {
	i := slices.IndexFunc(c.Endpoints, func(e Endpoint) bool { return e.Name == name })
	if i < 0 {
		return nil
	}
	return &c.Endpoints[i]
}
