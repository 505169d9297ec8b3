package admin

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"sync"
	"time"

	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/engine"
)

// Pinged is the result of a ping of a mounted server.
type Pinged struct {
	Field string `json:"field"`
	// URL is empty if the server is a program.
	URL string `json:"url,omitempty"`
	// Server describes the server. It is nil if the server cannot be used.
	Server *tool.Pong `json:"server,omitempty"`
	// Error is the reason why the server cannot be used. Next is a command that helps.
	Error *tool.Error `json:"error,omitempty"`
	Next  string      `json:"next,omitempty"`
}

// PingServers starts the mounted servers of the given fields, or of all fields, with a host of its own. It asks all of them
// at the same time and waits at most for the duration wait. It returns an error if the configuration is not valid, or if a
// field has no mounted server.
func PingServers(ctx context.Context, opts Options, fields []string, wait time.Duration) (out []Pinged, err error) {
	opts.RetryFailed = true
	e, err := engine.NewMode(ctx, engine.Options(opts), engine.Mode{Unstarted: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	var mounted []string
	urls := make(map[string]string)
	for _, p := range e.Current().Plugins {
		if p.Mounted {
			mounted = append(mounted, p.Name)
			urls[p.Name], _ = p.Server()
		}
	}
	for _, name := range fields {
		if _, ok := urls[name]; !ok {
			return nil, fmt.Errorf("field %q has no mounted server; these have one: %q%s", name, mounted, suggest.DidYouMean(name, mounted))
		}
	}
	if len(fields) == 0 {
		fields = mounted
	}
	ctx, cancel := context.WithTimeoutCause(ctx, wait, tool.Errorf(tool.Timeout, "The server did not answer within %s (--wait).", wait))
	defer cancel()
	out = make([]Pinged, len(fields))
	var all sync.WaitGroup
	for i, name := range fields {
		all.Go(func() {
			out[i] = Pinged{Field: name, URL: shownURL(urls[name])}
			var err error
			if out[i].Server, err = e.Ping(ctx, name); err != nil {
				if cause := context.Cause(ctx); ctx.Err() != nil {
					err = cause
				}
				out[i].Error = tool.AsError(err)
				out[i].Next = nextStep(name, out[i].Error.Message)
			}
		})
	}
	all.Wait()
	return out, nil
}

// shownURL returns a URL without its user and its query, because they can contain a secret.
func shownURL(server string) string {
	u, err := url.Parse(server)
	if err != nil || server == "" {
		return ""
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}

// loginCommand matches the command with which the plugin of a remote server tells the user to log in.
var loginCommand = regexp.MustCompile(`toolhost mcp login [^\s:;,]+(?: --add-scope \S+)*`)

// nextStep returns a command that helps with the error of a field.
func nextStep(field, message string) string {
	if login := loginCommand.FindString(message); login != "" {
		return login
	}
	return "toolhost plugin logs " + field
}
