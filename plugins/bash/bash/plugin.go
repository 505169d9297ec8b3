// Package bash implements the arguments, results and messages of the tools bash and job. Package shell runs the
// commands.
package bash

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"toolhost.dev/plugins/bash/jobs"
	"toolhost.dev/plugins/bash/process"
	"toolhost.dev/plugins/bash/session"
	"toolhost.dev/plugins/bash/shell"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/spill"
	"toolhost.dev/sdk/tool"
)

// Version is the version of the plugin.
const Version = "0.1.0"

// Plugin returns the plugin. Before its first call, the plugin starts no process and writes no file.
func Plugin() sdk.Plugin {
	return newBash().plugin()
}

func newBash() *bash {
	return &bash{store: spill.NewStore(""), warm: shell.MaxIdle, login: true, loginTime: 5 * time.Second}
}

// config is the plugin's configuration.
type config struct {
	Warm  *int  `json:"warm_shells,omitempty" min:"0" max:"64" jsonschema:"how many shells are started in advance, each for the next command of a session, which makes short commands faster; 8 by default, 0 turns this off"`
	Login *bool `json:"login_environment,omitempty" jsonschema:"whether commands also get the variables that the user's login shell exports, and the directories of its PATH; variables named like secrets are left out; true by default. The login shell runs in the sandbox: to let it read the user's own startup files, list them in the plugin's sandbox setting read"`
	// OutputBytes limits the total size of the files with long output. OutputAge limits the age of these files.
	OutputBytes int64  `json:"output_bytes,omitempty" min:"1048576" jsonschema:"the maximum size in bytes of all files with output that was too long to show; the oldest are removed first; 1 GiB by default"`
	OutputAge   string `json:"output_age,omitempty" jsonschema:"the age at which such a file is removed, as a duration such as 24h; 168h by default"`
}

func (b *bash) plugin() sdk.Plugin {
	return sdk.Plugin{
		Name: "bash", Version: Version,
		Tools:    []sdk.Tool{sdk.NewTool(definition(), b.run), sdk.NewTool(jobDefinition(), b.job)},
		Commands: true,
		Keeps:    []tool.Kept{{Kind: tool.KeptOutput, Age: "output_age"}},
		Needs:    &sdk.Needs{Read: sdk.Required, Write: sdk.Optional, Exec: sdk.Required, Network: sdk.Optional},
		Config: sdk.NewConfig(func(_ context.Context, c config, s sdk.Setup) error {
			if c.Warm != nil {
				b.warm = *c.Warm
			}
			if c.Login != nil {
				b.login = *c.Login
			}
			return b.keep(c, s)
		}),
		Health: b.health,
		Close:  b.close,
	}
}

// health reports what the process keeps for later calls. The host does not end such a process only because it is idle.
func (b *bash) health(context.Context, string) sdk.Health {
	h := sdk.Health{Status: tool.Healthy}
	var keeps []string
	if n := b.jobs.Count(); n > 0 {
		keeps = append(keeps, fmt.Sprintf("%d jobs", n))
	}
	if n := b.vault.Holds(); n > 0 {
		keeps = append(keeps, fmt.Sprintf("variables with secrets of %d sessions", n))
	}
	if keeps != nil {
		h.Details = sdk.Data(map[string]string{"keeps": strings.Join(keeps, ", ")})
	}
	return h
}

// keep creates the store for the files with long output and applies the limits in c.
func (b *bash) keep(c config, s sdk.Setup) error {
	if s.StateDir != "" {
		b.store = spill.NewStore(filepath.Join(s.StateDir, "output"))
	}
	b.store.MaxBytes, b.store.Setting = c.OutputBytes, "output_bytes in the config of this plugin"
	if s.OutputBytes > 0 && (c.OutputBytes == 0 || s.OutputBytes < c.OutputBytes) {
		b.store.MaxBytes, b.store.Setting = s.OutputBytes, "limits { output } of the principal"
	}
	if c.OutputAge == "" {
		return nil
	}
	age, err := tool.ParseDuration(c.OutputAge)
	if err != nil || age <= 0 {
		return &sdk.ConfigError{Path: []string{"output_age"}, Summary: fmt.Sprintf("output_age is %q, which is not a duration", c.OutputAge), Detail: "Write a positive number with a unit, such as 90m or 24h."}
	}
	b.store.MaxAge = age
	return nil
}

// bash contains the data that all calls share: jobs, prepared shells and output files. The host passes the session's
// state in each call and receives the new state in the result.
type bash struct {
	store *spill.Store
	jobs  jobs.Table
	warm  int  // number of shells to keep ready
	login bool // true if sessions have the environment of a login shell
	// loginTime limits the running time of the login shell.
	loginTime time.Duration
	environ   environ
	vault     session.Vault

	mu     sync.Mutex
	runner *shell.Runner
	closed bool
}

// shells returns the runner of shells. It creates the runner on first use.
func (b *bash) shells() (*shell.Runner, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, process.ErrClosed
	}
	if b.runner == nil {
		b.runner = shell.NewRunner(b.warm)
	}
	return b.runner, nil
}

// close ends all processes that calls left running.
func (b *bash) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.runner != nil {
		b.runner.Close()
	}
}
