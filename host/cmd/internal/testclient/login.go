//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
)

// documentID is the client id that the suite expects if an authorization server accepts the URL of a metadata document
// as the id.
const documentID = "https://conformance-test.local/client-metadata.json"

// maxLogins is the maximum number of logins before the user gives up.
const maxLogins = 3

// advice matches the command that toolhost recommends for a server that needs a login. A note of the host can follow
// the command.
var advice = regexp.MustCompile(`run: toolhost (mcp login up(?: --add-scope \S+)*)`)

// logIn calls the tool of the server and logs in as often as toolhost asks for it.
func (u *user) logIn(ctx context.Context) error {
	for range maxLogins {
		out, err := u.callTool(ctx)
		if err == nil {
			if u.scenario != "auth/authorization-server-migration" {
				return nil
			}
			if out, err = u.callTool(ctx); err == nil {
				return nil
			}
		}
		m := advice.FindStringSubmatch(out)
		if m == nil {
			return fmt.Errorf("the call failed without the advice to log in: %w", err)
		}
		if err := u.follow(ctx, strings.Fields(m[1])); err != nil {
			return err
		}
	}
	_, err := u.callTool(ctx)
	return err
}

// callTool calls the tool of the server and returns what toolhost prints.
func (u *user) callTool(ctx context.Context) (string, error) {
	c := u.command(ctx, "run", field+":test-tool")
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	fmt.Printf("%s\n", out.String())
	return out.String(), err
}

// follow runs the login that toolhost advises, and opens the printed page.
func (u *user) follow(ctx context.Context, args []string) error {
	args = append(args, "--no-browser")
	switch {
	case u.given.ClientSecret != "":
		args = append(args, "--client-id", u.given.ClientID, "--client-secret-env", "TESTCLIENT_SECRET")
	case u.scenario == "auth/basic-cimd":
		args = append(args, "--client-id", documentID)
	}
	fmt.Println("toolhost", strings.Join(args, " "))
	c := u.command(ctx, args...)
	c.Env = append(os.Environ(), "TESTCLIENT_SECRET="+u.given.ClientSecret)
	c.Stdout, c.Stderr = os.Stdout, nil
	lines, err := c.StderrPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	var opened error
	for s := bufio.NewScanner(lines); s.Scan(); {
		fmt.Println(s.Text())
		if page := strings.TrimSpace(s.Text()); strings.HasPrefix(page, "http") {
			opened = open(ctx, page)
		}
	}
	return errors.Join(c.Wait(), opened)
}

// open opens a page as a browser does. It follows the redirects, and the last redirect leads to toolhost.
func open(ctx context.Context, page string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return errors.Join(err, res.Body.Close())
}
