package engine

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/reload"
	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/supervisor"
)

// Kinds of alarms.
const (
	// AlarmState means that the state directory cannot be written. The host then refuses calls, unless the settings of
	// the audit log permit calls without an entry.
	AlarmState = "state_unwritable"
	// AlarmConfig means that the host does not use the configuration on disk.
	AlarmConfig = "config_refused"
	// AlarmUnloaded means that a plugin could not be loaded, so its tools are missing.
	AlarmUnloaded = "plugin_not_loaded"
	// AlarmSuspended means that a plugin is suspended, because it failed several times in a row.
	AlarmSuspended = "plugin_suspended"
	// AlarmStuck means that a running plugin does not answer, or reports that it is not healthy.
	AlarmStuck = "plugin_stuck"
	// AlarmRefused means that the host does not use the version of a plugin on disk.
	AlarmRefused = "plugin_refused"
	// AlarmApproval means that changed definitions of tools wait for an approval.
	AlarmApproval = "approval_needed"
	// AlarmOther means another problem of the host, such as a weaker sandbox.
	AlarmOther = "problem"
)

// Alarm is a problem about which an operator must be informed.
type Alarm struct {
	// Kind is one of the constants above, such as [AlarmConfig].
	Kind string `json:"kind"`
	// Subject is the name of the plugin. It is empty if the alarm is about the host.
	Subject string `json:"subject,omitempty"`
	// Message describes the problem, with a remedy.
	Message string `json:"message"`
	// Since is the time when this host first saw the problem.
	Since time.Time `json:"since"`
}

// Signals are measurements of a host for its operator. Measurements of single tools and plugins are in [Stats].
type Signals struct {
	// ConfigDigest is the SHA-256 of the configuration in use, in the form "sha256:…". It is empty for the built-in
	// configuration.
	ConfigDigest string `json:"config_digest,omitempty"`
	// Reload is the outcome of the last reload.
	Reload reload.LastReload `json:"reload"`
	// StateErrors is the number of failed writes of the state since the start.
	StateErrors uint64 `json:"state_errors"`
	// Sessions is the number of stored sessions. Busy is the number of sessions that have a running or waiting call.
	Sessions int `json:"sessions"`
	Busy     int `json:"busy_sessions"`
	// Waiting is the number of calls that wait, by the reason.
	Waiting map[string]int `json:"waiting"`
	// SpillBytes and SpillFiles are the size and the number of files with output that was too long to show.
	SpillBytes int64 `json:"spill_bytes"`
	SpillFiles int64 `json:"spill_files"`
	// StateBytes contains the sizes of the parts of the state directory, in bytes. These sizes can be up to 30 seconds
	// out of date.
	StateBytes map[string]int64 `json:"state_bytes,omitempty"`
	// Plugins describes the supervision of each plugin.
	Plugins []PluginSignals `json:"plugins"`
	Alarms  []Alarm         `json:"alarms"`
}

// PluginSignals describes the supervision of a plugin.
type PluginSignals struct {
	Name string `json:"name"`
	// Breaker is "closed", "half-open" or "open"; see [supervisor.Status].
	Breaker string `json:"breaker"`
	// Restarts is the number of unexpected exits of its processes.
	Restarts int `json:"restarts"`
	// Health is empty if the plugin does not run.
	Health tool.HealthStatus `json:"health,omitempty"`
}

// signalsLife is the time for which signals are cached. Without the cache, each of many clients would query the
// plugins.
const signalsLife = 2 * time.Second

// signals keeps the last signals.
type signals struct {
	mu    sync.Mutex
	at    time.Time
	last  Signals
	since map[Alarm]time.Time // when each alarm was first seen; the keys have no message and no time
	spill spill
}

// Signals returns the current signals. It asks running plugins for their health, and waits at most two seconds. The
// result can be two seconds old.
func (e *Engine) Signals() Signals {
	e.signals.mu.Lock()
	defer e.signals.mu.Unlock()
	if time.Since(e.signals.at) < signalsLife {
		return e.signals.last
	}
	g := e.Current()
	out := Signals{
		ConfigDigest: reload.ConfigDigest(g.Config), Reload: e.reloader.LastReload(), StateErrors: e.state.Failures(),
		Waiting: make(map[string]int), Alarms: []Alarm{}, Plugins: []PluginSignals{},
	}
	out.Sessions, _ = e.state.CountSessions("", time.Time{}.AddDate(1970, 0, 0)) // the error is ignored, because an alarm reports that the state cannot be used
	busy := make(map[string]bool)
	for _, c := range e.reloader.Builder.Calls.Scheduler.Calls() {
		busy[c.Session] = true
		if !c.Running {
			out.Waiting[waitReason(c.Reason)]++
		}
	}
	out.Busy = len(busy)
	history := make(state.UndoFiles)
	for _, p := range g.Plugins {
		history.Add(p.Name, p.Description())
	}
	e.signals.spill.measure(e.home, history)
	out.SpillBytes, out.SpillFiles, out.StateBytes = e.signals.spill.bytes, e.signals.spill.files, e.signals.spill.parts
	statuses := make([]PluginStatus, len(g.Plugins))
	var wg sync.WaitGroup
	for i, p := range g.Plugins {
		wg.Go(func() { statuses[i] = e.pluginStatus(g, p) })
	}
	wg.Wait()
	for i := range statuses {
		p := PluginSignals{Name: statuses[i].Name, Breaker: statuses[i].Breaker, Restarts: statuses[i].Crashes}
		if h := statuses[i].Health; h != nil {
			p.Health = h.Status
		}
		out.Plugins = append(out.Plugins, p)
	}
	out.Alarms = e.signals.seen(e.alarms(statuses))
	e.signals.last, e.signals.at = out, time.Now()
	return out
}

// alarms returns the current alarms without their times.
func (e *Engine) alarms(plugins []PluginStatus) (out []Alarm) {
	add := func(kind, subject, message string) {
		out = append(out, Alarm{Kind: kind, Subject: subject, Message: strings.TrimSuffix(message, ".") + "."})
	}
	if err := e.state.AuditProblem(); err != nil {
		add(AlarmState, "", "The audit log cannot be written: "+err.Error())
	} else if err := e.state.WriteProblem(); err != nil {
		add(AlarmState, "", "The state cannot be written: "+err.Error())
	}
	if why := e.reloader.ConfigRefusal(); why != "" {
		add(AlarmConfig, "", "The configuration on disk is not used: "+why+". Correct it, or go back: toolhost config rollback")
	}
	g := e.Current()
	known := slices.Clone(g.Broken)
	for i := range plugins {
		p := &plugins[i]
		switch {
		case g.Unloaded[p.Name] != "":
			add(AlarmUnloaded, p.Name, g.Unloaded[p.Name])
		case p.Breaker == supervisor.BreakerOpen || p.Breaker == supervisor.BreakerHalfOpen:
			add(AlarmSuspended, p.Name, fmt.Sprintf("Plugin %s failed %d times in a row and is suspended: %s. To start it now: toolhost plugin reload %[1]s", p.Name, p.Failures, p.LastFailure))
		case p.Health != nil && p.Health.Status != tool.Healthy:
			add(AlarmStuck, p.Name, fmt.Sprintf("Plugin %s (pid %d) does not answer, or is not healthy: %s. To replace it: toolhost plugin reload %[1]s", p.Name, p.PID, p.Health.Message))
		}
		if p.Refused != "" {
			add(AlarmRefused, p.Name, fmt.Sprintf("The new binary of plugin %s is not used: %s", p.Name, p.Refused))
		}
		if len(p.Unapproved) > 0 {
			add(AlarmApproval, p.Name, fmt.Sprintf("Plugin %s changed the definitions of its tools. Check them with toolhost plugin info %[1]s, then run toolhost plugin approve %[1]s", p.Name))
		}
	}
	for _, p := range slices.Concat(e.closing.problems, g.Problems) {
		if !slices.Contains(known, p) {
			add(AlarmOther, "", p)
		}
	}
	return out
}

// seen adds the time when each alarm was first seen.
func (s *signals) seen(now []Alarm) []Alarm {
	since := make(map[Alarm]time.Time)
	out := []Alarm{}
	for _, a := range now {
		key := Alarm{Kind: a.Kind, Subject: a.Subject}
		if a.Kind == AlarmOther {
			key.Message = a.Message
		}
		at, ok := s.since[key]
		if !ok {
			at = time.Now()
		}
		since[key], a.Since = at, at
		out = append(out, a)
	}
	s.since = since
	return out
}

// waitReason classifies why a call waits. "session_limit" means that the session already runs the maximum number of
// calls. "order" means that an earlier call must end first.
func waitReason(reason string) string {
	if reason == scheduler.ReasonLimit {
		return "session_limit"
	}
	return "order"
}

// spillLife is the time for which the sizes of the state directory are kept. Computing the sizes requires examining
// each file.
const spillLife = 30 * time.Second

// spill keeps the sizes of the parts of the state directory, and the number of the files with long output.
type spill struct {
	at           time.Time
	bytes, files int64
	parts        map[string]int64
}

// measure reads the sizes if they are too old.
func (s *spill) measure(home state.Home, history state.UndoFiles) {
	if time.Since(s.at) < spillLife || home.Root == "" {
		return
	}
	s.files = 0
	home.EachOutput(func(string, fs.FileInfo) { s.files++ })
	s.parts = home.Sizes(history)
	s.bytes, s.at = s.parts[state.PartOutput], time.Now()
}

// Usable returns an error if no call can succeed: the host shuts down, its audit log cannot be written, or no plugin is
// usable.
func (e *Engine) Usable(context.Context) error {
	if err := e.Ready(); err != nil {
		return err
	}
	if err := e.state.CheckAudit(); err != nil {
		return fmt.Errorf("the audit log cannot be written, so calls are refused: %w", err)
	}
	g := e.Current()
	for _, p := range g.Plugins {
		if p.Err == nil && !p.Process.Suspended() {
			return nil
		}
	}
	return fmt.Errorf("none of the %d plugins is usable; toolhost status shows why", len(g.Plugins))
}
