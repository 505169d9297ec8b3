package functions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// endpoint is a backend that makes an HTTP request for each call.
type endpoint struct {
	url     string
	shown   string // URL for messages, without the query, which can contain secrets
	method  string
	headers map[string]string
	params  []string // names of the parameters in the URL
	client  *http.Client
}

var placeholder = regexp.MustCompile(`\{([^{}]*)\}`)

func newEndpoint(b *Block, fail func(what, summary, detail string) error) (backend, error) {
	e := &endpoint{url: b.URL, method: b.Method, headers: b.Headers}
	if e.method == "" {
		e.method = http.MethodPost
	}
	for _, m := range placeholder.FindAllStringSubmatch(b.URL, -1) {
		if !slices.Contains(e.params, m[1]) {
			e.params = append(e.params, m[1])
		}
	}
	u, err := url.Parse(placeholder.ReplaceAllString(b.URL, "x"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fail("url", fmt.Sprintf("%q is not a URL of an endpoint", b.URL), "Write it as https://host/path.")
	}
	host, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(b.URL, "https://"), "http://"), "/")
	if strings.ContainsAny(host, "{}?") {
		return nil, fail("url", "The host of the URL contains a parameter", "Write the host in full, and use {name} only in the path or the query.")
	}
	for _, k := range slices.Sorted(maps.Keys(b.Headers)) {
		if !httpguts.ValidHeaderFieldName(k) || !httpguts.ValidHeaderFieldValue(b.Headers[k]) {
			return nil, fail("headers", fmt.Sprintf("The header %q cannot be sent", k), "Use letters, digits and '-' in the name, and a value of one line.")
		}
	}
	e.shown, _, _ = strings.Cut(b.URL, "?")
	if user := u.User; user != nil {
		e.shown = strings.Replace(e.shown, user.String()+"@", "", 1)
	}
	e.client = &http.Client{CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if first := via[0].URL; r.URL.Host != first.Host || r.URL.Scheme != first.Scheme {
			// Do not follow the redirect: the headers can contain secrets, which only the configured host may receive.
			return fmt.Errorf("the endpoint redirects to %s://%s; correct url in the field block", r.URL.Scheme, r.URL.Host)
		}
		if len(via) > 10 {
			return errors.New("the endpoint redirects more than 10 times")
		}
		return nil
	}}
	return e, nil
}

// fits returns an error if the URL contains a parameter that a call can omit.
func (e *endpoint) fits(d *definition) error {
	schema, err := tool.ParseSchema(d.Input)
	if err != nil {
		return err
	}
	for _, name := range e.params {
		p := schema.Param(name)
		switch {
		case p == nil:
			return fmt.Errorf("The URL has {%s}, but the function has no such parameter. Correct the URL or the definition.", name) //nolint:staticcheck // a sentence for the operator
		case !p.Required && p.Default == nil:
			return fmt.Errorf("The URL has {%s}, but this parameter is optional and has no default. Make it required, or set a default.", name) //nolint:staticcheck // a sentence for the operator
		}
	}
	return nil
}

func (e *endpoint) call(ctx context.Context, call *sdk.Call, d *definition) (*sdk.Result, error) {
	req, err := e.request(ctx, call.Arguments)
	if err != nil {
		return nil, err
	}
	res, err := e.client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // drop the URL from the error, because the URL can contain a secret
		}
		return nil, sdk.Errorf(tool.Unavailable, "The endpoint of the function %s, %s, cannot be reached: %w. Try again later. If the error remains, check \"url\" of the function, and \"network\" in the sandbox block of its field.", d.original, e.shown, err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, sdk.Errorf(tool.Unavailable, "The connection ended during the answer of the endpoint %s: %w. Try again.", e.shown, err)
	}
	if len(body) > maxAnswer {
		return nil, sdk.Errorf(tool.ExecutionFailed, "The answer of the endpoint %s is larger than the limit of %d MiB. Ask for less.", e.shown, maxAnswer>>20)
	}
	if res.StatusCode >= 300 {
		text := lastOf(strings.TrimSpace(string(body)))
		if text == "" {
			text = "(empty answer)"
		}
		return nil, sdk.Errorf(kindOf(res.StatusCode), "The endpoint %s answered %s: %s", e.shown, res.Status,
			text).WithCode(res.StatusCode)
	}
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case len(body) == 0:
		return sdk.Text(res.Status), nil
	case !utf8.Valid(body) || strings.HasPrefix(media, "image/") && media != "image/svg+xml":
		kind := "file"
		if strings.HasPrefix(media, "image/") {
			kind = "image"
		}
		return &sdk.Result{Output: fmt.Sprintf("The answer is attached: %d bytes, %s.", len(body), media),
			Attachments: []sdk.Attachment{{Type: kind, MediaType: media, Content: body}}}, nil
	}
	return result(body, 0), nil
}

// kindOf converts an HTTP status to an error kind.
func kindOf(status int) tool.Kind {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return tool.InvalidArguments
	case http.StatusUnauthorized, http.StatusForbidden:
		return tool.PermissionDenied
	case http.StatusNotFound, http.StatusGone:
		return tool.NotFound
	case http.StatusConflict:
		return tool.Conflict
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return tool.Timeout
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable:
		return tool.Unavailable
	}
	return tool.ExecutionFailed
}

// request returns the HTTP request for a call. Some arguments replace parameters in the URL. The other arguments are
// sent in the body, or in the query if the method has no body.
func (e *endpoint) request(ctx context.Context, raw json.RawMessage) (*http.Request, error) {
	var args map[string]json.RawMessage
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, sdk.Errorf(tool.InvalidArguments, "The arguments do not fit the parameters: %w. Correct the arguments.", err)
	}
	path, query, hasQuery := strings.Cut(e.url, "?")
	var wrong error
	fill := func(text string, escape func(string) string) string {
		return placeholder.ReplaceAllStringFunc(text, func(m string) string {
			name := m[1 : len(m)-1]
			value := plain(args[name])
			if value == "" || value == "." || value == ".." {
				wrong = sdk.Errorf(tool.InvalidArguments, "The parameter %s is a part of the endpoint's address and cannot be %q. Give another value.", name, value)
			}
			return escape(value)
		})
	}
	address := fill(path, url.PathEscape)
	if query = fill(query, url.QueryEscape); wrong != nil {
		return nil, wrong
	}
	for _, name := range e.params {
		delete(args, name)
	}
	var body io.Reader
	if e.method == http.MethodGet || e.method == http.MethodDelete {
		values := make(url.Values)
		for name, v := range args {
			var list []json.RawMessage
			if json.Unmarshal(v, &list) != nil {
				list = []json.RawMessage{v}
			}
			for _, one := range list {
				values.Add(name, plain(one))
			}
		}
		if len(values) > 0 {
			query = strings.TrimPrefix(query+"&"+values.Encode(), "&")
		}
	} else {
		b, err := json.Marshal(args)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	if hasQuery || query != "" {
		address += "?" + query
	}
	req, err := http.NewRequestWithContext(ctx, e.method, address, body)
	if err != nil {
		return nil, sdk.Errorf(tool.InvalidArguments, "The arguments do not make a valid address of %s", e.shown)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json, text/*;q=0.9, */*;q=0.5")
	for k, v := range e.headers {
		req.Header.Set(k, v)
	}
	return req, nil
}

// plain returns the text of a JSON string. Any other value is returned as JSON.
func plain(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
