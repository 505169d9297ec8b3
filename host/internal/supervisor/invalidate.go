package supervisor

import (
	"context"
	"slices"
	"sync"

	"toolhost.dev/sdk/tool"
)

// reports records which changes of files below a branch were already reported to a process of that branch.
// The zero value means that nothing was reported. The first report then states that everything can have changed.
type reports struct {
	mu sync.Mutex
	at uint64 // position of the last report; see [Site]
}

// invalidate reports the changes below a branch to a process of the branch. Calls that begin after invalidate see these
// changes.
func (p *Plugin) invalidate(ctx context.Context, in *instance) error {
	if !slices.Contains(in.desc.Capabilities, tool.CapabilityInvalidate) {
		return nil
	}
	i := slices.IndexFunc(p.spec.Roots, func(r tool.Root) bool { return r.Branch != "" })
	if i < 0 {
		return nil
	}
	to, ok := in.rpc.(tool.Invalidator)
	if !ok {
		return nil
	}
	in.told.mu.Lock()
	defer in.told.mu.Unlock()
	changed, now := p.super.opts.Site.Changes(p.spec.Roots[i].Branch, in.told.at)
	if changed.All || len(changed.Paths) > 0 {
		if err := to.Invalidate(ctx, changed); err != nil {
			e := tool.AsError(err)
			return tool.Errorf(e.Kind, "The plugin %s cannot be told what changed in the workspace: %s", p.spec.Name, e.Message).From(e.Source)
		}
	}
	in.told.at = now
	return nil
}
