package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/answer"
	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/principal"
	"toolhost.dev/host/internal/reload"
	"toolhost.dev/host/internal/supervisor"
)

// healthTimeout is the time within which a plugin must report its health.
const healthTimeout = 2 * time.Second

// healthPatience is the number of health checks that are skipped after an attempt to replace an unhealthy plugin
// failed.
const healthPatience = 10

// Health asks a tool's plugin for the health of the tool. It starts the plugin if needed. For the health of whole
// plugins, see [Engine.Status].
func (e *Engine) Health(ctx context.Context, name string) tool.Health {
	g := e.Current()
	entry := g.Registry.Find(name)
	if entry == nil {
		return tool.Health{
			Status: tool.HealthNotFound, Message: "There is no tool " + name + ". Run toolhost tools for a list.",
		}
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
		e.opts.Log.Warn("an unhealthy plugin is replaced", "plugin", p.Name, "status", health.Status, "message",
			health.Message)
		r, err := e.reloader.Reload(ctx, reload.Options{Plugins: []string{p.Name}, By: "(health check)"})
		if err != nil || r.Refused() {
			skip[p.Name] = healthPatience
		}
	}
}

// LoggedIn makes the plugins use the current logins at remote servers at once. It also loads the fields that could not
// be loaded because their login was missing.
func (e *Engine) LoggedIn(ctx context.Context) {
	e.reloader.Builder.Logins.Update(ctx)
	e.loadAfterLogin(ctx)
}

// loadAfterLogin reloads each field that failed to load, if somebody has since logged in to the server of the field. It
// reports whether all of these fields are loaded now.
func (e *Engine) loadAfterLogin(ctx context.Context) bool {
	fields := e.failedWithLogin()
	if len(fields) == 0 {
		return true
	}
	if _, err := e.Reload(ctx, ReloadOptions{Plugins: fields, By: "(login)"}); err != nil {
		e.opts.Log.Warn("fields with a new login cannot be loaded", "fields", fields, "error", err)
	}
	return len(e.failedWithLogin()) == 0
}

// failedWithLogin returns the fields that failed to load although somebody has logged in to their server.
func (e *Engine) failedWithLogin() (fields []string) {
	for _, p := range e.Current().Plugins {
		if server, _ := p.Server(); server != "" && p.Err != nil &&
			!e.reloader.Builder.Logins.Obtained(server).IsZero() {
			fields = append(fields, p.Name)
		}
	}
	return fields
}

// NeededLogin returns the field whose remote server needs a login before a failed call can succeed. It also returns the
// scopes that the current login lacks. The field is "" for errors that a login cannot remedy. It is also "" if the
// error names a field to which the tool of the result does not belong. Therefore a tool cannot cause a login for
// another plugin.
func NeededLogin(res *tool.Result) (field string, scopes []string) {
	e := res.Error
	if e == nil || e.Kind != tool.Unavailable || res.Run.Tool == "" && e.Source == tool.SourceTool {
		return "", nil
	}
	field, scopes = principal.LoginNeeded(e.Message)
	if res.Run.Tool != "" && !strings.HasPrefix(res.Run.Tool, field+":") {
		return "", nil
	}
	return field, scopes
}

// Ping asks the mounted server of a field for its version and for the number of its tools and items. It starts the
// plugin if needed. The error is the reason why the server cannot be used.
func (e *Engine) Ping(ctx context.Context, field string) (*tool.Pong, error) {
	g := e.Current()
	p := g.Plugin(field)
	if p == nil {
		return nil, tool.Errorf(tool.NotFound, "No field is named %s.", field)
	}
	if p.Err != nil && !errors.Is(p.Err, generation.ErrUnstarted) {
		return nil, p.Err
	}
	if p.Description() == nil {
		if err := e.reloader.Builder.Describe(ctx, p); err != nil {
			return nil, err
		}
	}
	lease := (supervisor.Set{field: p.Process}).Reserve(field, "")
	if lease == nil {
		return nil, tool.Errorf(tool.Unavailable, "Plugin %s is being replaced. Try again.", field)
	}
	defer lease.Release()
	res := lease.Call(ctx,
		&tool.Call{ID: e.ids.next(), Method: tool.MethodPing, Arguments: json.RawMessage("{}")}, pingPeer{})
	if res.Error != nil {
		return nil, res.Error
	}
	out := new(tool.Pong)
	if err := json.Unmarshal(res.Data, out); err != nil {
		return nil, fmt.Errorf("the answer of plugin %s is not valid: %w", field, err)
	}
	return out, nil
}

// pingPeer is the peer of a ping, which belongs to no session.
type pingPeer struct{ answer.Nobody }

// FileStates implements [tool.Peer].
func (pingPeer) FileStates(context.Context, ...string) (map[string]tool.FileState, error) {
	return map[string]tool.FileState{}, nil
}
