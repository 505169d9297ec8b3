//go:build linux

// Command testclient is a client for the official conformance suite of MCP. It mounts the server of a scenario in
// toolhost. Then it performs the actions that the scenario requires of a client, with commands of toolhost:
//
//	testclient TOOLHOST URL
//
// The suite sets MCP_CONFORMANCE_SCENARIO and MCP_CONFORMANCE_CONTEXT.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: testclient TOOLHOST URL")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Getenv("MCP_CONFORMANCE_SCENARIO")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// user is a user of toolhost with a separate configuration and state directory.
type user struct {
	toolhost string
	dir      string
	scenario string
	// given contains the input from the suite: a registered client, or calls to make.
	given struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		ToolCalls    []struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"toolCalls"`
	}
}

// field is the name of the mounted server.
const field = "up"

func run(toolhost, url, scenario string) error {
	dir, err := os.MkdirTemp("", "testclient")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a directory for temporary files
	u := &user{toolhost: toolhost, dir: dir, scenario: scenario}
	if given := os.Getenv("MCP_CONFORMANCE_CONTEXT"); given != "" {
		if err := json.Unmarshal([]byte(given), &u.given); err != nil {
			return err
		}
	}
	config := fmt.Sprintf("bundled = false\nfield %q {\n  mcp {\n    url   = %q\n    offer = [\"tools\", \"prompts\", \"resources\"]\n    allow = [\"elicitation\", \"sampling\", \"roots\"]\n  }\n}\n", field, url)
	if err := os.WriteFile(u.config(), []byte(config), 0o600); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, "work"), 0o700); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	if strings.HasPrefix(scenario, "auth/") {
		return u.logIn(ctx)
	}
	if scenario == "elicitation-sep1034-client-defaults" {
		return u.confirmDefaults(ctx)
	}
	return u.useAll(ctx)
}

func (u *user) config() string { return filepath.Join(u.dir, "toolhost.hcl") }

// command returns a command of toolhost.
func (u *user) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, u.toolhost, append([]string{"--config", u.config(), "--state", filepath.Join(u.dir, "state"), "--workspace", filepath.Join(u.dir, "work")}, args...)...) //nolint:gosec // the suite names the program
	c.Dir = filepath.Join(u.dir, "work")
	c.Stderr = os.Stderr
	return c
}

// useAll acts as an agent that uses toolhost as its MCP server. It calls all tools, reads all resources and gets all
// prompts.
func (u *user) useAll(ctx context.Context) error {
	client := mcp.NewClient(&mcp.Implementation{Name: "testclient", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirmed": true}}, nil
		},
	})
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: u.command(ctx, "mcp")}, nil)
	if err != nil {
		return err
	}
	defer session.Close() //nolint:errcheck // the process ends with this one
	var failed []error
	report := func(what string, err error) {
		fmt.Printf("%s: %v\n", what, err)
		failed = append(failed, err)
	}
	schemas := make(map[string]any)
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(t.Name, field+"_")
		schemas[name] = t.InputSchema
		if u.given.ToolCalls == nil {
			args := arguments(t.InputSchema)
			if name == "json_schema_echo" {
				args = map[string]any{"schema": schemas["json_schema_2020_12_tool"]}
			}
			report(t.Name, call(ctx, session, t.Name, args))
		}
	}
	for _, c := range u.given.ToolCalls {
		report(c.Name, call(ctx, session, field+"_"+c.Name, c.Arguments))
	}
	if session.InitializeResult().Capabilities.Resources != nil {
		for r, err := range session.Resources(ctx, nil) {
			if err != nil {
				return err
			}
			_, err = session.ReadResource(ctx, &mcp.ReadResourceParams{URI: r.URI})
			report(r.URI, err)
		}
	}
	if session.InitializeResult().Capabilities.Prompts != nil {
		for p, err := range session.Prompts(ctx, nil) {
			if err != nil {
				return err
			}
			_, err = session.GetPrompt(ctx, &mcp.GetPromptParams{Name: p.Name})
			report(p.Name, err)
		}
	}
	return errors.Join(failed...)
}

// call calls a tool of the mounted server.
func call(ctx context.Context, session *mcp.ClientSession, name string, args any) error {
	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil || !res.IsError {
		return err
	}
	b, err := json.Marshal(res.Content)
	return errors.Join(fmt.Errorf("the call failed: %s", b), err)
}

// arguments returns arguments that fit the required parameters of a schema.
func arguments(schema any) map[string]any {
	out := make(map[string]any)
	s, _ := schema.(map[string]any)
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	for _, name := range required {
		name, _ := name.(string)
		p, _ := properties[name].(map[string]any)
		switch p["type"] {
		case "number", "integer":
			out[name] = 2
		case "boolean":
			out[name] = true
		case "object":
			out[name] = map[string]any{}
		case "array":
			out[name] = []any{}
		case "null":
			out[name] = nil
		default:
			out[name] = "text"
		}
	}
	return out
}
