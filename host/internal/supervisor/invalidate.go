package supervisor

import (
	"context"
	"slices"
	"sync"

	"toolhost.dev/sdk/tool"
)

// reports is what the supervisor has told a process about changes of files below its branch. The zero value means that the
// process knows nothing, so the first report is that everything can have changed.
type reports struct {
	mu sync.Mutex
	at uint64 // position of the last report; see Options.Changes
}

// invalidate reports to a process in a branch what changed below the branch. Calls that begin after it see the changes.
func (p *Plugin) invalidate(ctx context.Context, in *instance) error {
	changes := p.super.opts.Changes
	if changes == nil || !slices.Contains(in.desc.Capabilities, tool.CapabilityInvalidate) {
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
	changed, now := changes(p.spec.Roots[i].Branch, in.told.at)
	if changed.All || len(changed.Paths) > 0 {
		if err := to.Invalidate(ctx, changed); err != nil {
			e := tool.AsError(err)
			return tool.Errorf(e.Kind, "The plugin %s cannot be told what changed in the workspace: %s", p.spec.Name, e.Message).From(e.Source)
		}
	}
	in.told.at = now
	return nil
}
