package bash

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"

	"toolhost.dev/plugins/bash/session"
	"toolhost.dev/plugins/bash/shell"
	"toolhost.dev/sdk"
)

// environment returns the environment for a session's commands. The caller must not change the result.
func (b *bash) environment(ctx context.Context, call *sdk.Call, shells *shell.Runner, state *session.State,
	r *report) []string {
	own := os.Environ()
	var login []string
	if b.login {
		login = b.loginEnvironment(ctx, shells, state, r, own)
	}
	commands := ""
	if call.Commands != nil {
		commands = call.Commands.Dir
	}
	return b.environ.assemble(own, login, commands)
}

// loginEnvironment returns the variables of the login shell. It runs that shell once per session.
func (b *bash) loginEnvironment(ctx context.Context, shells *shell.Runner, state *session.State, r *report,
	own []string) []string {
	if state.Login != nil {
		return *state.Login
	}
	login, err := shells.Login(ctx, b.loginTime, r.bash, r.at.session, shell.Environment(own))
	if ctx.Err() != nil {
		return nil // the call was canceled, so the login environment stays unknown
	}
	if err != nil {
		r.note(fmt.Sprintf("The environment of the login shell could not be read, so commands of this session run without it: %v. To turn the attempt off, set login_environment = false in the plugin's configuration.", err))
	}
	state.Login = &login
	return login
}

// environ creates environments for commands. It caches the last environment, because comparing the inputs is faster
// than creating a new environment. It is safe for concurrent use.
type environ struct {
	mu               sync.Mutex
	own, login, made []string
	commands         string
}

// assemble returns the environment for commands. It takes the variables of this process, adds the variables of the
// login shell, and appends the directory of the host's tools to PATH. If the name of the directory is empty, PATH stays
// unchanged.
func (e *environ) assemble(own, login []string, commands string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.made == nil || e.commands != commands || !slices.Equal(e.own, own) || !slices.Equal(e.login, login) {
		e.own, e.login, e.commands = own, login, commands
		e.made = shell.AddLogin(shell.Environment(own), login)
		if commands != "" {
			e.made = shell.AppendPath(e.made, commands)
		}
	}
	return e.made
}
