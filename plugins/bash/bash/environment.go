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

// environment gives that of a session's commands, which is not to be changed. It asks the login
// shell the first time.
func (b *bash) environment(ctx context.Context, call *sdk.Call, shells *shell.Runner, state *session.State, r *report) []string {
	own, commands := os.Environ(), ""
	if call.Commands != nil {
		commands = call.Commands.Dir
	}
	if b.login && state.Login == nil {
		login, err := shells.Login(ctx, b.loginTime, r.bash, r.at.session, shell.Environment(own))
		if ctx.Err() != nil {
			return b.environ.of(own, nil, commands) // the call is over
		}
		if err != nil {
			r.note(fmt.Sprintf("Commands go without the environment of the login shell, which could not be read: %v. It is not tried again in this session; login_environment = false in the plugin's configuration leaves it out.", err))
		}
		state.Login = &login
	}
	if !b.login {
		return b.environ.of(own, nil, commands)
	}
	return b.environ.of(own, *state.Login, commands)
}

// environ makes environments, and keeps the last one: it takes longer to make one than to see that it
// would be the same. It is safe for concurrent use.
type environ struct {
	mu               sync.Mutex
	own, login, made []string
	commands         string
}

// of makes it of that of this process, of what the login shell adds, and of the directory of the
// host's tools; empty: there is none.
func (e *environ) of(own, login []string, commands string) []string {
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
