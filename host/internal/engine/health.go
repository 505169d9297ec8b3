package engine

import (
	"context"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/reload"
)

// healthTimeout is the time within which a plugin must report its health.
const healthTimeout = 2 * time.Second

// healthPatience is the number of skipped health checks after the failed replacement of an unhealthy plugin.
const healthPatience = 10

// Health asks a tool's plugin for the health of the tool. It starts the plugin if needed. For the health of whole
// plugins, see [Engine.Status].
func (e *Engine) Health(ctx context.Context, name string) tool.Health {
	g := e.Current()
	entry := g.Registry.Find(name)
	if entry == nil {
		return tool.Health{Status: tool.HealthNotFound, Message: "There is no tool " + name + ". Run toolhost tools for a list."}
	}
	p := g.Plugin(entry.Plugin)
	if _, err := p.Process.Describe(ctx); err != nil {
		return tool.Health{Status: tool.HealthError, Message: tool.AsError(err).Message}
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	health, ok := p.Process.Health(ctx, entry.Definition.Name)
	if !ok {
		return tool.Health{Status: tool.HealthError, Message: "plugin " + entry.Plugin + " has just exited"}
	}
	return health
}

// watchHealth periodically checks running plugins and replaces unhealthy ones until ctx is canceled. The interval
// follows the current configuration.
func (e *Engine) watchHealth(ctx context.Context) {
	skip := make(map[string]int)
	for {
		var next <-chan time.Time // a nil channel disables the checks
		if interval := e.Current().Config.Host.HealthInterval; interval > 0 {
			next = time.After(interval)
		}
		select {
		case <-next:
			e.checkHealth(ctx, skip)
		case <-e.live.reconfigured:
		case <-ctx.Done():
			return
		}
	}
}

func (e *Engine) checkHealth(ctx context.Context, skip map[string]int) {
	for _, p := range e.Current().Plugins {
		if skip[p.Name]--; skip[p.Name] > 0 {
			continue
		}
		delete(skip, p.Name)
		asked, cancel := context.WithTimeout(ctx, healthTimeout)
		health, ok := p.Process.Health(asked, "")
		cancel()
		if !ok || health.Status == tool.Healthy || ctx.Err() != nil {
			continue
		}
		e.opts.Log.Warn("an unhealthy plugin is replaced", "plugin", p.Name, "status", health.Status, "message", health.Message)
		r, err := e.reloader.Reload(ctx, reload.Options{Plugins: []string{p.Name}})
		if err != nil || r.Refused() {
			skip[p.Name] = healthPatience
		}
	}
}
