package host_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// modules returns the modules to which the rules apply: the SDK, the libraries, the host and the bundled plugins. A
// directory with a manifest is a bundled plugin.
func modules() ([]string, error) {
	manifests, err := filepath.Glob("../plugins/*/toolhost-plugin.json")
	if err != nil || len(manifests) == 0 {
		return nil, errors.Join(err, fmt.Errorf("%d manifests of plugins", len(manifests)))
	}
	out := []string{"toolhost.dev/sdk", "toolhost.dev/sdk/statedb", branch, sandbox, shellscript, "toolhost.dev/host", registries, "toolhost.dev/host/cmd", "toolhost.dev/host/fleet", "toolhost.dev/bench"}
	for _, m := range manifests {
		out = append(out, "toolhost.dev/plugins/"+filepath.Base(filepath.Dir(m)))
	}
	return out, nil
}

// rule restricts the imports of certain packages.
type rule struct {
	why string
	// of reports whether the rule applies to a package. The function "allows" reports whether such a package
	// can import another package.
	of     func(pkg string) bool
	allows func(pkg, imported string) bool
}

func under(path string, roots ...string) bool {
	return slices.ContainsFunc(roots, func(r string) bool { return path == r || strings.HasPrefix(path, r+"/") })
}

const (
	internal    = "toolhost.dev/host/internal/"
	cli         = "toolhost.dev/host/cmd/internal/cli"
	registries  = "toolhost.dev/host/admin/registries"
	branch      = "toolhost.dev/branch"
	sandbox     = "toolhost.dev/sandbox"
	shellscript = "toolhost.dev/shellscript"
)

// branchLayers lists the packages of the module branch, from the top layer to the bottom layer.
var branchLayers = [][]string{
	{""},
	{"/checkpoint", "/internal/apply"},
	{"/internal/journal", "/internal/workcopy"},
	{"/change", "/internal/mirror"},
	{"/internal/gitstate"},
	{"/internal/basewatch", "/internal/filetree", "/internal/gitignore", "/internal/killpoint", "/internal/overlay", "/internal/textmerge"},
}

// branchLayer returns the layer of a package of the module branch, or -1 if the table lacks the package.
func branchLayer(pkg string) int {
	return slices.IndexFunc(branchLayers, func(l []string) bool { return slices.Contains(l, strings.TrimPrefix(pkg, branch)) })
}

var rules = []rule{
	{
		why: "the sdk knows neither host nor plugins",
		of:  func(p string) bool { return under(p, "toolhost.dev/sdk") },
		allows: func(_, i string) bool {
			return !under(i, "toolhost.dev/host", "toolhost.dev/plugins", "toolhost.dev/bench")
		},
	},
	{
		why: "a plugin knows only the sdk and itself",
		of:  func(p string) bool { return under(p, "toolhost.dev/plugins") },
		allows: func(p, i string) bool {
			own := strings.Join(strings.Split(p, "/")[:3], "/")
			return !under(i, "toolhost.dev") || under(i, "toolhost.dev/sdk", own)
		},
	},
	{
		why: "the host runs plugins, it does not link them",
		of:  func(p string) bool { return under(p, "toolhost.dev/host") },
		allows: func(_, i string) bool {
			return !under(i, "toolhost.dev/plugins", "toolhost.dev/bench")
		},
	},
	{
		why: "a frontend uses package host and admin, and packages about texts that are no part of the host",
		of: func(p string) bool {
			return under(p, "toolhost.dev/host/cmd/toolhost", cli, "toolhost.dev/host/api", "toolhost.dev/host/console", "toolhost.dev/host/batch", "toolhost.dev/host/mcp", "toolhost.dev/host/export", "toolhost.dev/host/exposition")
		},
		allows: func(p, i string) bool {
			own := under(p, "toolhost.dev/host/cmd/toolhost", cli) && under(i, cli)
			return own || !strings.HasPrefix(i, internal) && !under(i, branch) || i == internal+"lazyregexp" || i == internal+"testlines" // the last one for tests
		},
	},
	{
		why:    "a shim is started for every use, so it knows nothing but its wire",
		of:     func(p string) bool { return under(p, "toolhost.dev/host/cmd/toolhost-shim", internal+"shim/wire") },
		allows: func(_, i string) bool { return !strings.Contains(i, ".") || under(i, internal+"shim") },
	},
	{
		why: "the launcher is started for every plugin, so it knows nothing but the kernel",
		of: func(p string) bool {
			return under(p, sandbox+"/cmd/toolhost-sandbox", sandbox+"/confine", sandbox+"/deadline")
		},
		allows: func(_, i string) bool {
			return !strings.Contains(i, ".") || under(i, sandbox+"/confine", sandbox+"/deadline", sandbox+"/descriptor", "golang.org/x/sys")
		},
	},
	{
		why: "only the wire and the supervisor know go-plugin",
		of: func(p string) bool {
			return !under(p, "toolhost.dev/sdk/toolrpc", internal+"supervisor", "toolhost.dev/bench")
		},
		allows: func(_, i string) bool { return !under(i, "github.com/hashicorp/go-plugin") },
	},
	{
		why: "only the frontend for it and the plugin for its servers know MCP",
		of: func(p string) bool {
			return !under(p, "toolhost.dev/host/mcp", "toolhost.dev/host/cmd/test", cli+"/setupcmd", "toolhost.dev/host/cmd/internal/testclient", "toolhost.dev/host/cmd/internal/testserver", "toolhost.dev/plugins/mcp", "toolhost.dev/bench")
		},
		allows: func(_, i string) bool { return !under(i, "github.com/modelcontextprotocol") },
	},
	{
		why: "only the exposition knows Prometheus, and its reader of /proc the metrics",
		of: func(p string) bool {
			return !under(p, "toolhost.dev/host/exposition", internal+"telemetry", "toolhost.dev/host/cmd/test")
		},
		allows: func(_, i string) bool { return !under(i, "github.com/prometheus") },
	},
	{
		why:    "HCL stays in config",
		of:     func(p string) bool { return !under(p, internal+"config") },
		allows: func(_, i string) bool { return !under(i, "github.com/hashicorp/hcl", "github.com/zclconf/go-cty") },
	},
	{
		why: "only the module admin/registries knows registries, and only the command line uses it",
		of:  func(p string) bool { return !under(p, registries) },
		allows: func(p, i string) bool {
			forTests := under(p, "toolhost.dev/host/cmd/test") && under(i, "github.com/google/go-containerregistry")
			return forTests || !under(i, "oras.land", "github.com/google/go-containerregistry", "github.com/opencontainers") && (!under(i, registries) || under(p, cli))
		},
	},
	{
		why: "only a fleet and its coordinator know NATS",
		of: func(p string) bool {
			return !under(p, "toolhost.dev/host/fleet", "toolhost.dev/host/cmd/toolhost-coordinator", "toolhost.dev/bench")
		},
		allows: func(_, i string) bool { return !under(i, "github.com/nats-io") },
	},
	{
		why:    "what scripts run is found out without knowing of tools",
		of:     func(p string) bool { return under(p, shellscript) },
		allows: func(_, i string) bool { return !strings.Contains(i, ".") || under(i, shellscript, "mvdan.cc/sh/v3") },
	},
	{
		why: "a sandbox knows the kernel and no host",
		of:  func(p string) bool { return under(p, sandbox) },
		allows: func(_, i string) bool {
			return !under(i, "toolhost.dev") || under(i, sandbox, shellscript) || i == "toolhost.dev/sdk/tool" || i == "toolhost.dev/sdk/durable" || i == "toolhost.dev/sdk/tooltest/need"
		},
	},
	{
		why: "a branch knows files and the sandbox, and no host",
		of:  func(p string) bool { return under(p, branch) },
		allows: func(_, i string) bool {
			return !under(i, "toolhost.dev") || under(i, branch, sandbox, "toolhost.dev/sdk/durable", "toolhost.dev/sdk/flock", "toolhost.dev/sdk/suggest", "toolhost.dev/sdk/tool", "toolhost.dev/sdk/tooltest/need")
		},
	},
	{
		why: "imports in a branch run down the table branchLayers",
		of:  func(p string) bool { return under(p, branch) },
		allows: func(p, i string) bool {
			own := strings.TrimSuffix(p, "_test")
			return !under(i, branch) || own == i || branchLayer(own) < branchLayer(i)
		},
	},
	{
		why: "the stages know the vocabulary, and each other only through dispatch",
		of: func(p string) bool {
			return under(p, internal+"registry", internal+"policy", internal+"scheduler", internal+"supervisor", internal+"state", internal+"config", internal+"telemetry", internal+"hook", "toolhost.dev/host/router")
		},
		allows: func(p, i string) bool {
			own := strings.TrimSuffix(p, "_test")
			return !under(i, "toolhost.dev/host", branch, sandbox, shellscript) || own == i || own == internal+"policy" && i == shellscript || under(p, internal+"state") && under(i, internal+"state") || under(p, internal+"config") && under(i, sandbox, internal+"artifact", internal+"audit", internal+"config", internal+"habit", internal+"manifest", internal+"nodename", internal+"principal", internal+"quota", internal+"rollout") || i == shellscript+"/recursion" || i == internal+"lazyregexp" || i == internal+"scratch" || i == sandbox+"/stamp" || i == sandbox+"/fingerprint" || i == sandbox+"/descriptor"
		},
	},
}

// TestCallsDoNotReachRegistries checks that a program that embeds a host does not link the code that connects to
// registries. Only package admin/registries links this code.
func TestCallsDoNotReachRegistries(t *testing.T) {
	deps := linked(t, module, module+"/mcp", module+"/api", module+"/batch", module+"/admin")
	for _, dep := range deps {
		if under(dep, "oras.land", registries) {
			t.Errorf("a call can reach %s", dep)
		}
	}
	if !slices.Contains(deps, internal+"artifact") {
		t.Error("the store of plugins is not among the dependencies, so the list is not what it should be")
	}
}

// linked returns the packages that programs with the given packages link.
func linked(t *testing.T, roots ...string) (deps []string) {
	t.Helper()
	for _, p := range listed(t) {
		if slices.Contains(roots, p.ImportPath) {
			deps = append(deps, p.Deps...)
		}
	}
	return deps
}

// pkg is the output of go list for one package.
type pkg struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// listed returns the packages of all modules.
func listed(t *testing.T) []pkg {
	t.Helper()
	all, err := list()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// list calls go list once for all tests, because each call loads all packages again.
var list = sync.OnceValues(func() (all []pkg, err error) {
	modules, err := modules()
	if err != nil {
		return nil, err
	}
	args := []string{"list", "-json=ImportPath,Imports,TestImports,XTestImports,Deps"}
	for _, m := range modules {
		args = append(args, m+"/...")
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("go list: %w\n%s", err, exit.Stderr)
		}
		return nil, err
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
})

func TestImportRules(t *testing.T) {
	modules, err := modules()
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]int)
	for _, p := range listed(t) {
		for _, m := range modules {
			if under(p.ImportPath, m) {
				seen[m]++
			}
		}
		for _, r := range rules {
			if !r.of(p.ImportPath) {
				continue
			}
			for _, i := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
				// Some tests forge messages of nodes and coordinators. They import the packages for keys and for the
				// protocol, which other code must not import.
				forTests := (i == internal+"testprogram" || i == "toolhost.dev/host/fleet/identity" || under(i, "github.com/nats-io/nats.go")) && !slices.Contains(p.Imports, i)
				if !forTests && !r.allows(p.ImportPath, i) {
					t.Errorf("%s imports %s, but %s", p.ImportPath, i, r.why)
				}
			}
		}
	}
	for _, m := range modules {
		if seen[m] == 0 {
			t.Errorf("no package of %s was looked at", m)
		}
	}
}

// TestStartIsCheap checks that the program does not link modules whose initialization would delay each start.
func TestStartIsCheap(t *testing.T) {
	slow := map[string]string{"github.com/mattn/go-runewidth": "computes tables of the widths of characters for 20 ms"}
	seen := false
	for _, dep := range linked(t, module+"/cmd/toolhost") {
		seen = seen || dep == "toolhost.dev/host/console"
		if why := slow[dep]; why != "" {
			t.Errorf("toolhost links %s, which %s", dep, why)
		}
	}
	if !seen {
		t.Error("the console is not among the dependencies, so the list is not what it should be")
	}
}
