package host

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/egress"
	"toolhost.dev/host/internal/hostlist"
	"toolhost.dev/host/internal/sandbox"
	"toolhost.dev/host/internal/state"
)

// proxyPort is where a plugin that may reach single hosts finds the proxy, on the localhost of its
// own network.
const proxyPort = 3128

// throughProxy has the programs of a plugin use the proxy.
func throughProxy(env []string) []string {
	address := fmt.Sprintf("http://127.0.0.1:%d", proxyPort)
	own := "localhost,127.0.0.1,::1"
	vars := []string{"NODE_USE_ENV_PROXY=1"}
	for name, value := range map[string]string{"HTTP_PROXY": address, "HTTPS_PROXY": address, "ALL_PROXY": address, "NO_PROXY": own} {
		vars = append(vars, name+"="+value, strings.ToLower(name)+"="+value)
	}
	slices.Sort(vars)
	env = slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.ContainsFunc(vars, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	})
	return append(env, vars...)
}

// serveProxy answers a plugin's programs until stop is called.
func (h *Host) serveProxy(l net.Listener, cfg *config.Config, p *config.Plugin, hosts []string) (stop func(), err error) {
	list, err := hostlist.Parse(hosts)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, l.Close())
	}
	advice := func(d egress.DenialError) string { return networkAdvice(cfg, p, &d) }
	proxy := &egress.Proxy{Hosts: list, Log: h.log, Advice: advice, Denied: func(d egress.DenialError) {
		text := fmt.Sprintf("The sandbox refused a connection to %s. %s", d.Error(), advice(d))
		if h.denials.add(p.Name, d.Target, text, d.At) {
			h.auditDenial(p, &d, text)
		}
	}}
	return proxy.Serve(l), nil
}

// networkAdvice says how a host that was refused would be allowed.
func networkAdvice(cfg *config.Config, p *config.Plugin, d *egress.DenialError) string {
	where := fmt.Sprintf("plugin %q", p.Name)
	if p.Mounted {
		where = fmt.Sprintf("field %q", p.Name)
	}
	if at := cfg.PluginPosition(p.Name); at != "" {
		where += " (" + at + ")"
	}
	return fmt.Sprintf("To allow it, the operator adds %q to the list network in the sandbox block of %s", d.Entry, where)
}

// auditDenial keeps in the audit log that a connection was refused.
func (h *Host) auditDenial(p *config.Plugin, d *egress.DenialError, text string) {
	args, err := json.Marshal(map[string]string{"host": d.Target})
	if err != nil { // a string marshals
		panic(err)
	}
	h.state.AddAudit(state.AuditEntry{
		At: d.At, Tool: "(network)", Arguments: args, Decision: "deny", Rule: fmt.Sprintf("network of plugin %q", p.Name),
		Outcome: string(tool.PermissionDenied), Error: text, Plugin: p.Name,
	})
}

const (
	// maxDenials bounds what is remembered of each plugin.
	maxDenials = 100
	// auditAgain is how long the same denial is not kept again in the audit log.
	auditAgain = time.Minute
)

// denials are what sandboxes refused of late, by plugin. It is safe for concurrent use.
type denials struct {
	mu sync.Mutex
	by map[string][]denial
}

type denial struct {
	target, text string
	at, audited  time.Time
}

// add remembers a denial. It reports whether it is to be audited.
func (d *denials) add(plugin, target, text string, at time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by = make(map[string][]denial)
	}
	all := d.by[plugin]
	next := denial{target, text, at, at}
	if i := slices.IndexFunc(all, func(o denial) bool { return o.target == target }); i >= 0 {
		if at.Sub(all[i].audited) < auditAgain {
			next.audited = all[i].audited
		}
		all = slices.Delete(all, i, i+1)
	}
	if len(all) == maxDenials {
		all = slices.Delete(all, 0, 1)
	}
	d.by[plugin] = append(all, next)
	return next.audited.Equal(at)
}

// since gives what was refused to a plugin from a moment on, the oldest first.
func (d *denials) since(plugin string, began time.Time) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, o := range d.by[plugin] {
		if !o.at.Before(began) {
			out = append(out, o.text)
		}
	}
	return out
}

// gitDenied is what programs say when they write to what is protected in a repository.
var gitDenied = regexp.MustCompile(`(?im)\.git/(?:modules/\S*/)?(?:config|hooks)\b.*(?:resource busy|read-only)|(?:Device or resource busy|Read-only file system).*\.git\b|could not write config file \S*\.git/|\.git\b.*Device or resource busy`)

// denied gives dispatch's Denied.
func (g *generation) denied(h *Host) func(string, []tool.Root, time.Time, string) []string {
	return func(plugin string, roots []tool.Root, since time.Time, printed string) []string {
		out := h.denials.since(plugin, since)
		m := g.member(plugin)
		if m == nil || profile(&m.Plugin).WriteGit || !profile(&m.Plugin).WriteRoots {
			return out
		}
		if backend, _, err := g.confinement.choose(&m.Plugin, roots); err != nil || backend != sandbox.Namespaces {
			return out
		}
		for _, r := range roots {
			if before, known := h.redirected.Load(r.Path); !r.Writable || !known || before == true {
				continue
			}
			path := sandbox.Redirects(r.Path)
			if path == "" {
				continue
			}
			aside := path + ".from-sandbox"
			if err := os.Rename(path, aside); err != nil {
				h.log.Warn("a file that sends git elsewhere for its settings and hooks cannot be moved aside: remove it before git runs there", "file", path, "error", err)
				continue
			}
			h.log.Warn("a file that sends git elsewhere for its settings and hooks was moved aside", "file", path, "to", aside)
			out = append(out, fmt.Sprintf("%s would have sent git elsewhere for its settings and hooks, and was moved to %s", path, aside))
		}
		if gitDenied.MatchString(printed) {
			at := ""
			if p := g.cfg.PluginPosition(plugin); p != "" {
				at = " (" + p + ")"
			}
			out = append(out, fmt.Sprintf("The sandbox keeps .git itself, .git/hooks and .git/config as they are, since what stands there is run outside of it. Commits and branches work; settings can be given for one command (git -c NAME=VALUE). To allow it, the operator writes git = \"read-write\" in the sandbox block of plugin %q%s", plugin, at))
		}
		return out
	}
}
