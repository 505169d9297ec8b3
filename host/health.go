package host

import (
	"context"
	"time"

	"toolhost.dev/sdk/tool"
)

// healthTimeout is how long a plugin may take to say how it is.
const healthTimeout = 2 * time.Second

// healthPatience is how many checks are left out after an unhealthy plugin could not be replaced.
const healthPatience = 10

// Health asks a tool's plugin how the tool is, starting it if need be. An empty name is not a
// tool; a whole plugin's health is in [Host.Status].
func (h *Host) Health(ctx context.Context, name string) tool.Health {
	g := h.current.Load()
	e := g.registry.Find(name)
	if e == nil {
		return tool.Health{Status: tool.HealthNotFound, Message: "there is no tool " + name}
	}
	if _, err := g.member(e.Plugin).plugin.Describe(ctx); err != nil {
		return tool.Health{Status: tool.HealthError, Message: tool.AsError(err).Message}
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	health, ok := g.member(e.Plugin).plugin.Health(ctx, e.Definition.Name)
	if !ok {
		return tool.Health{Status: tool.HealthError, Message: "plugin " + e.Plugin + " has just ended"}
	}
	return health
}

// watchHealth asks the plugins that run how they are, again and again, until ctx ends, and has
// those replaced that are unhealthy. The interval may change with the configuration.
func (h *Host) watchHealth(ctx context.Context) {
	skip := make(map[string]int)
	for {
		var next <-chan time.Time // never, when there is no interval
		if interval := h.current.Load().cfg.Host.HealthInterval; interval > 0 {
			next = time.After(interval)
		}
		select {
		case <-next:
			h.checkHealth(ctx, skip)
		case <-h.live.configured:
		case <-ctx.Done():
			return
		}
	}
}

func (h *Host) checkHealth(ctx context.Context, skip map[string]int) {
	for _, m := range h.current.Load().members {
		if skip[m.Name]--; skip[m.Name] > 0 {
			continue
		}
		delete(skip, m.Name)
		asked, cancel := context.WithTimeout(ctx, healthTimeout)
		health, ok := m.plugin.Health(asked, "")
		cancel()
		if !ok || health.Status == tool.Healthy || ctx.Err() != nil {
			continue
		}
		h.log.Warn("a plugin is not healthy, and is replaced", "plugin", m.Name, "status", health.Status, "message", health.Message)
		r, err := h.Reload(ctx, ReloadOptions{Plugins: []string{m.Name}})
		if err != nil || r.Refused() {
			skip[m.Name] = healthPatience
		}
	}
}
