package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"

	"toolhost.dev/sdk/suggest"

	"toolhost.dev/host/internal/habit"
	"toolhost.dev/sandbox"
)

// These are remedies for limits that are too small.
const (
	leastCall      = "At least one call must be able to run."
	leastOrNoLimit = "At least one call must be possible. Leave it out for no limit."
)

var hostTable = newTable(
	row("log_level", custom("string", func(h *Host) *int { return (*int)(&h.LogLevel) },
		func(d *decoder, a *hcl.Attribute, to *Host) {
			_ = to.LogLevel.UnmarshalText([]byte(d.choice(a.Expr, to.LogLevel.String(), "debug", "info",
				"warn", "error"))) // ignore the error: the function "choice" accepts only valid levels
		}), free, `"warn"`, "Lowest level of messages on standard error: debug, info, warn or error."),
	row("state_dir",
		custom("string", func(h *Host) *string { return &h.StateDir }, func(d *decoder, a *hcl.Attribute, to *Host) {
			to.StateDir = d.path(d.optionalText(a.Expr))
		}), free, "(the user's state directory)", "Directory of sessions and caches.", isPath),
	row("on_ask", choice(func(h *Host) *string { return &h.OnAsk }, "allow", "deny", "prompt"), ranked("allow", "prompt", "", "deny"), "(deny)", "Decision on a permission ask: allow, deny or prompt."),
	row("timeout", duration(func(h *Host) *time.Duration { return &h.Timeout }), free, `"2m"`, "Timeout of a call, unless its tool or a tool block sets one. It starts when the tool starts."),
	row("max_wait", duration(func(h *Host) *time.Duration { return &h.MaxWait }), free, `"2m"`, "Limit on the time a call waits for other calls before it starts."),
	row("shutdown_timeout", duration(func(h *Host) *time.Duration { return &h.ShutdownTimeout }), free, `"30s"`, "Time that running calls get after SIGTERM before they are canceled."),
	row("max_parallel", count(func(h *Host) *int { return &h.MaxParallel }, leastCall), higher,
		"10", "Maximum number of concurrent calls of one session. Calls of the bundled tools job and ask_user, of mounted servers, and of other tools that are safe beside others and name no files do not count."),
	row("max_calls", count(func(h *Host) *int { return &h.MaxCalls }, leastCall), higher, "(no limit)", "Maximum number of concurrent calls of all sessions. Calls of the bundled tools job and ask_user do not count."),
	row("health_interval", duration(func(h *Host) *time.Duration { return &h.HealthInterval }), free, "(only on request)", "Interval of health checks of running plugins."),
	row("aliases", listOf("list(string)", func(h *Host) *[]string { return &h.AliasPresets }, (*decoder).presets), free, presetsHCL(), "Sets of aliases to enable: names of tools and parameters that agents know from other programs."),
	row("adaptive", flag(func(h *Host) *bool { return &h.Adaptive }), free, "false", "Whether limits follow earlier calls, and slow results are cached."),
)

// presets evaluates a list of names of alias presets.
func (d *decoder) presets(e hcl.Expression) (names []string) {
	known := slices.Sorted(maps.Keys(habit.Presets))
	d.add(gohcl.DecodeExpression(e, d.ctx, &names))
	for _, name := range names {
		if !slices.Contains(known, name) {
			d.fail(e.Range(), fmt.Sprintf("There is no set of aliases %q", name), "There are: %s.%s",
				strings.Join(known, ", "), suggest.DidYouMean(name, known))
		}
	}
	return names
}

// presetsHCL returns the names of all alias presets as HCL.
func presetsHCL() string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(habit.Presets)) {
		names = append(names, strconv.Quote(name))
	}
	return "[" + strings.Join(names, ", ") + "]"
}

var sandboxTable = newTable(
	row("workspace", choice(func(s *Sandbox) *string { return &s.Workspace }, "read-write", "read-only"), ranked("read-write", "read-only"), `"read-write"`, "Access to the workspace: read-write or read-only."),
	row("paths", either(func(s *Sandbox) *bool { return &s.Strict }, "contained", "strict"), lower, `"contained"`, `Rule for links and "..": contained follows them inside the roots, strict refuses both.`, hostOnly),
	row("allow", globs(func(s *Sandbox) *[]string { return &s.Allow }), compared, "(any path)", "Globs over absolute paths, one of which a path in the arguments of a tool must match. Commands reach all roots.", hostOnly),
	row("deny", listOf("list(string)", func(s *Sandbox) *[]string { return &s.Deny },
		func(d *decoder, e hcl.Expression) []string {
			out, _ := d.globs(e)
			d.denied = e.Range()
			return out
		}), compared,
		"(none)", "Globs over paths that tools and commands cannot read or write. The same as paths { deny } in permissions.", hostOnly),
	row("backend", choiceOf(func(s *Sandbox) *string { return &s.Backend }, sandbox.Words), rankedBy(sandbox.ByPrivilege), `"auto"`, "Backend that confines plugins: "+backendWords()+"."),
	row("enforce", choice(func(s *Sandbox) *string { return &s.Enforce }, "auto", "require", "off"), ranked("off", "auto", "require"),
		`"auto"`, "Enforcement: auto uses the strongest available backend, require refuses to start without the configured one, off confines no plugin."),
	row("allow_root", directories(func(s *Sandbox) *[]string { return &s.AllowRoot }), longer, "(none)", "Directories that tools may write although the host refuses them, such as the home directory.", isPath),
	row("repositories", choice(func(s *Sandbox) *string { return &s.Repositories }, "quarantine", "off"), ranked("off", "quarantine"),
		`"quarantine"`, "Handling of what makes git run programs, in repositories that tools make: quarantine takes it out, off keeps it."),
)

var reloadTable = newTable(
	row("watch", flag(func(r *Reload) *bool { return &r.Watch }), free, "true", "Whether a long-lived host applies changes automatically."),
	row("changes", either(func(r *Reload) *bool { return &r.AnyChanges }, "compatible", "any"), higher, `"compatible"`, "Handling of plugin versions that break callers of their tools: compatible refuses them, any applies them."),
	row("privilege_increases", choice(func(r *Reload) *string { return &r.PrivilegeIncreases }, "approve", "explicit", "allow"), ranked("allow", "explicit", "approve"),
		`"explicit"`, "Handling of a configuration that allows tools more: explicit applies it if a reload is requested, approve only with --approve-privileges, allow always.").renamed("widening"),
)

var trustTable = newTable(
	row("definitions", either(func(t *Trust) *bool { return &t.Approve }, "report", "approve"), lower, `"report"`, "Handling of definitions that are not approved: report reports them, approve also blocks calls of the tool."),
	row("untrusted", either(func(t *Trust) *bool { return &t.Refuse }, "narrow", "refuse"), lower, `"narrow"`, "Handling of a project file that is not trusted: narrow applies only its restrictions, refuse does not start."),
)

var workspaceTable = newTable(
	row("mode", choice(func(w *Workspace) *string { return &w.Mode }, "direct", ModeBranch, "require"),
		ranked("direct", ModeBranch, "require"),
		`"direct"`, "direct: in the workspace, unless a request names a branch. branch: each session without a branch gets one of its own. require: every request must name a branch."),
	row("backend", choice(func(w *Workspace) *string { return &w.Backend }, "auto", "overlay", "copy"), free,
		`"auto"`, "How new branches are made: overlay is a layer of the kernel's overlay file system; auto is overlay, and an error where it does not work; copy is a copy of the workspace in another directory."),
	nested[Workspace]("limits", "Limits of each branch. A command that exceeds one is stopped."),
	row("limits.layer", size(func(w *Workspace) *uint64 { return &w.Limits.Layer }), higher, `"10GiB"`, "Maximum size of what a branch changes. A preview has a tenth of it."),
	row("limits.files", count(func(w *Workspace) *int { return &w.Limits.Files }, "Write a whole number of at least 1."), higher, "500000", "Maximum number of files in what a branch changes. A preview has a tenth of it."),
	row("limits.age", duration(func(w *Workspace) *time.Duration { return &w.Limits.Age }), free, `"14d"`, `Age at which a branch without changes that are not applied is removed. A day or more is written as "14d".`),
	nested[Workspace]("checkpoints", "Copies of what a branch changes, to go back to."),
	row("checkpoints.automatic", flag(func(w *Workspace) *bool { return &w.Checkpoints.Automatic }), free, "true", "Whether a checkpoint is made before each call that can change files. undo goes back to them."),
	row("checkpoints.keep", count(func(w *Workspace) *int { return &w.Checkpoints.Keep }, "Write a whole number of at least 1, or turn them off: automatic = false."), free,
		"100", "Maximum number of automatic checkpoints of a branch. The oldest ones are removed."),
	row("checkpoints.bytes", size(func(w *Workspace) *uint64 { return &w.Checkpoints.Bytes }), free, `"1GiB"`, "Maximum size of what all checkpoints of a branch store. The oldest automatic ones are removed."),
	row("checkpoints.ignored", flag(func(w *Workspace) *bool { return &w.Checkpoints.Ignored }), free,
		"false", "Whether checkpoints store all that git ignores. Without it, files and directories of more than 10 MiB or 2000 paths stay as they are."),
)

var auditTable = newTable(
	row("enabled", not(func(a *Audit) *bool { return &a.Off }), lower, "true", "Whether calls are recorded."),
	row("max_size", size(func(a *Audit) *uint64 { return &a.MaxBytes }), lower, `"64MiB"`, "Maximum size of the log."),
	row("max_age", duration(func(a *Audit) *time.Duration { return &a.MaxAge }), lower, `"2160h"`, "Maximum age of an entry."),
	row("secrets", hidden(listOf("list(string)", func(a *Audit) *[]string { return &a.Secrets }, (*decoder).secrets)), shorter, "[]", "Environment variables whose values are masked wherever they occur."),
	row("on_failure", either(func(a *Audit) *bool { return &a.Continue }, "stop", "continue"), higher, `"stop"`, "Handling of calls while the log cannot be written: stop refuses them, continue runs them unrecorded."),
)

// secrets evaluates a list of names of environment variables. It returns the values of these variables.
func (d *decoder) secrets(e hcl.Expression) (values []string) {
	look := d.env.lookup()
	for _, name := range d.optionalTexts(e) {
		if v, ok := look(name); ok { // an unset variable has no value that must be hidden
			values = append(values, v)
		}
	}
	return values
}

// DefaultAudit returns the audit settings of a configuration without an audit block.
func DefaultAudit() Audit { return auditTable.defaults() }

var retentionTable = newTable(
	row("sessions", duration(func(r *Retention) *time.Duration { return &r.Sessions }), free, `"2160h"`, "Time after which a session that nobody used is deleted, with everything that belongs to it."),
	row("history", duration(func(r *Retention) *time.Duration { return &r.History }), free, "(none)", "Age at which a command in the history of a session is deleted."),
	row("output", duration(func(r *Retention) *time.Duration { return &r.Output }), free, `"168h"`, "Age at which a file with long output of a command is deleted."),
	row("undo", duration(func(r *Retention) *time.Duration { return &r.Undo }), free, "(none)", "Age at which a change of a file can no longer be undone."),
)

var tracingTable = newTable(
	row("endpoint", custom("string", func(t *Tracing) *string { return &t.Endpoint },
		func(d *decoder, a *hcl.Attribute, to *Tracing) {
			to.Endpoint = d.text(a.Expr)
			if u, err := url.Parse(to.Endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" ||
				u.Host == "" {
				d.fail(a.Expr.Range(), fmt.Sprintf("%q is no address of a collector", to.Endpoint), "Write one such as \"http://localhost:4318\", which takes OTLP over HTTP.")
			}
			to.Endpoint = strings.TrimSuffix(to.Endpoint, "/")
		}), free, "(that of the environment)", "URL of a collector that accepts OTLP over HTTP."),
	row("headers", plain("map(string)", func(t *Tracing) *map[string]string { return &t.Headers }), free, "{}",
		"Headers sent with each request.", secret),
	row("sample", custom("number", func(t *Tracing) **float64 { return &t.Sample },
		func(d *decoder, a *hcl.Attribute, to *Tracing) {
			var n float64
			diags := gohcl.DecodeExpression(a.Expr, d.ctx, &n)
			d.add(diags)
			if !diags.HasErrors() && (n < 0 || n > 1) {
				d.fail(a.Expr.Range(), fmt.Sprintf("%v is no share", n), "Write a number from 0, for none, to 1, for all traces.")
			}
			to.Sample = &n
		}), free, "(that of the environment)", "Share of traces that are recorded, from 0 to 1."),
	row("enabled", not(func(t *Tracing) *bool { return &t.Off }), free, "true", "Whether traces are sent."),
)

var recordTable = newTable(
	row("dir",
		custom("string", func(r *Record) *string { return &r.Dir }, func(d *decoder, a *hcl.Attribute, to *Record) {
			switch dir := d.text(a.Expr); {
			case dir != "":
				to.Dir = d.path(dir)
			case !d.diags.HasErrors():
				d.fail(a.Expr.Range(), "The directory of the tapes is empty", "Name a directory where tools cannot write, such as \"/var/lib/toolhost/tapes\".")
			}
		}), free, "", "Directory of the tapes, where tools cannot write. A tape is named after its time and its session.", required, isPath),
	row("sessions", globs(func(r *Record) *[]string { return &r.Sessions }), free, `["*"]`, "Globs for the IDs of the sessions. The default session of a workspace has an empty ID."),
	row("principals", texts(func(r *Record) *[]string { return &r.Principals }), free, "(all)", "Callers whose sessions are recorded."),
	row("exclude", globs(func(r *Record) *[]string { return &r.Exclude }), free, "[]", "Files of the workspace that the tapes do not contain, such as node_modules."),
	row("max_size", size(func(r *Record) *int64 { return &r.MaxBytes }), free, `"256MiB"`, "Maximum size of the files of a workspace. A session in a larger one is not recorded."),
	row("keep", count(func(r *Record) *int { return &r.Keep }, "At least one tape is kept."), free, "20", "Tapes that are kept in the directory. The oldest are removed."),
)
