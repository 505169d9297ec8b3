package setupcmd

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host"
	"toolhost.dev/host/agent"
	"toolhost.dev/host/cmd/toolhost/internal/cli"
)

// prove starts the server with the agent's command, environment and directory, and lists the server's tools.
func prove(ctx context.Context, plan *agent.Plan) error {
	l, err := plan.Launch(os.Environ())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, proveTimeout)
	defer cancel()
	c := exec.Command(l.Command[0], l.Command[1:]...) //nolint:gosec // it is what the agent runs
	var log bytes.Buffer
	c.Env, c.Dir, c.Stderr = l.Env, l.Dir, &log
	names, err := tools(ctx, c)
	if err != nil {
		return fmt.Errorf("the settings were written, but the server fails if it is started in the way of %s: %w\n%s", plan.Agent.Title, err, cli.Clean(strings.TrimSpace(log.String())))
	}
	if len(names) == 0 {
		return fmt.Errorf("the settings are written, but the server offers no tools to %s; see toolhost tools", plan.Agent.Title)
	}
	_, err = fmt.Printf("Started %s as %s does. It offers %d tools: %s\n", cli.Printable(strings.Join(l.Command, " ")), plan.Agent.Title, len(names), cli.Printable(strings.Join(names, ", ")))
	return err
}

func tools(ctx context.Context, c *exec.Cmd) (names []string, err error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "toolhost-setup", Version: host.Version}, nil)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: c}, nil)
	if err != nil {
		return nil, err
	}
	defer session.Close() //nolint:errcheck // the tools were listed
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		names = append(names, t.Name)
	}
	return names, nil
}
