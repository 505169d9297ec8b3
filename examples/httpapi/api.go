package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// maxBody is the maximum number of bytes that are read from an answer.
const maxBody = 1 << 20

type config struct {
	BaseURL string            `json:"base_url,omitempty" jsonschema:"Where the endpoints begin."`
	Headers map[string]string `json:"headers,omitempty" jsonschema:"Sent with every request."`
}

// api is a client for an HTTP API. Its methods can be called concurrently, because the client does not change after it
// was configured.
type api struct {
	base    *url.URL // nil until the plugin is configured
	headers map[string]string
	client  *http.Client
}

func newAPI() *api {
	return &api{client: &http.Client{
		Timeout: time.Minute,
		// The headers can contain a secret, so they must be sent only to the configured server.
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if r.URL.Host != via[0].URL.Host || r.URL.Scheme != via[0].URL.Scheme {
				return fmt.Errorf("it leads to another server, %s", r.URL.Host)
			}
			if len(via) >= 5 {
				return errors.New("it leads on too often")
			}
			return nil
		},
	}}
}

func (a *api) configure(_ context.Context, c config, _ sdk.Setup) error {
	if c.BaseURL == "" {
		return nil // this is no error: the tools can still be listed, and calls report the missing setting
	}
	base, err := url.Parse(strings.TrimSuffix(c.BaseURL, "/") + "/")
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return &sdk.ConfigError{Path: []string{"base_url"}, Summary: fmt.Sprintf("%q is not the URL of an HTTP API.", c.BaseURL), Detail: `Give one as "https://api.example.com/v1".`}
	}
	a.base, a.headers = base, c.Headers
	return nil
}

type getArgs struct {
	Endpoint string `json:"endpoint" jsonschema:"Path below the API's base URL, with a query if there is one."`
}

type callArgs struct {
	Endpoint string         `json:"endpoint" jsonschema:"Path below the API's base URL, with a query if there is one."`
	Method   string         `json:"method,omitempty" enum:"GET,POST,PUT,PATCH,DELETE" default:"POST" jsonschema:"The HTTP method."`
	Data     map[string]any `json:"data,omitempty" jsonschema:"An object to send as the body, in JSON."`
}

// answer is the structured data in the result of a call.
type answer struct {
	Status    int             `json:"status"`
	Body      json.RawMessage `json:"body,omitempty"` // set only if the answer is JSON
	Truncated bool            `json:"truncated,omitempty"`
}

func (a *api) get(ctx context.Context, call *sdk.Call, in getArgs) (*sdk.Result, error) {
	return a.do(ctx, call, http.MethodGet, in.Endpoint, "")
}

func (a *api) call(ctx context.Context, call *sdk.Call, in callArgs) (*sdk.Result, error) {
	if in.Data == nil {
		return a.do(ctx, call, in.Method, in.Endpoint, "")
	}
	data, err := json.Marshal(in.Data)
	if err != nil {
		return nil, sdk.Errorf(tool.InvalidArguments, "The data cannot be written as JSON: %w", err)
	}
	return a.do(ctx, call, in.Method, in.Endpoint, string(data))
}

func (a *api) do(ctx context.Context, call *sdk.Call, method, endpoint, data string) (*sdk.Result, error) {
	target, err := a.resolve(endpoint)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, target.String(), strings.NewReader(data))
	if err != nil {
		return nil, sdk.Errorf(tool.InvalidArguments, "The endpoint %q cannot be asked for: %w", endpoint, err)
	}
	for name, value := range a.headers {
		r.Header.Set(name, value)
	}
	if data != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	call.Progress(method+" "+target.Path, nil)
	resp, err := a.client.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, sdk.Errorf(tool.Unavailable, "The API does not answer: %w. Is base_url right, and has the plugin a network (sandbox { network = true })?", err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return nil, sdk.Errorf(tool.Unavailable, "The answer of the API is cut off: %w. Call again.", err)
	}
	return result(method+" "+endpoint, resp, body)
}

// resolve returns the URL of an endpoint. It returns an error if the endpoint is outside of the API.
func (a *api) resolve(endpoint string) (*url.URL, error) {
	if a.base == nil {
		return nil, sdk.Errorf(tool.Unavailable, `No API is configured: add config { base_url = "https://…" } to the plugin's block.`)
	}
	ref, err := url.Parse(strings.TrimPrefix(endpoint, "/"))
	if err != nil || ref.Scheme != "" || ref.Host != "" || ref.User != nil {
		return nil, sdk.Errorf(tool.InvalidArguments, "The endpoint %q is not a path: give one as users/7?full=1.", endpoint)
	}
	target := a.base.JoinPath(ref.Path)
	target.RawQuery = ref.RawQuery
	if !strings.HasPrefix(target.Path+"/", a.base.Path) {
		return nil, sdk.Errorf(tool.Security, "The endpoint %q leads out of the API.", endpoint)
	}
	return target, nil
}

func result(title string, resp *http.Response, body []byte) (*sdk.Result, error) {
	got := answer{Status: resp.StatusCode, Truncated: len(body) > maxBody}
	if got.Truncated {
		body = body[:maxBody]
	}
	text := string(bytes.ToValidUTF8(body, []byte("�")))
	if json.Valid(body) && utf8.Valid(body) {
		got.Body = body
	}
	res := &sdk.Result{Title: title, Output: fmt.Sprintf("%s\n%s", resp.Status, text), Data: sdk.Data(got)}
	if got.Truncated {
		res.Output += "\n(only the first MiB is shown)"
	}
	kind := tool.ExecutionFailed
	switch {
	case resp.StatusCode < 400:
		return res, nil
	case resp.StatusCode == http.StatusNotFound:
		kind = tool.NotFound
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		kind = tool.PermissionDenied
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500:
		kind = tool.Unavailable
	}
	return res, sdk.Errorf(kind, "The API says %s: %.2000s", resp.Status, text).WithCode(resp.StatusCode)
}
