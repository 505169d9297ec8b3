package mcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host"
	"toolhost.dev/sdk/tool"
)

// ReachesPerson reports whether the client can ask its user. The queue of the HTTP interface does not count, because an
// ask can wait there for minutes.
func (f *front) ReachesPerson() bool {
	f.mu.Lock()
	r := f.run
	f.mu.Unlock()
	return f.approver == nil && r.reachesPerson()
}

// Parks reports whether the client gets a question as the answer to its request, so that it may never come back.
func (f *front) Parks() bool {
	f.mu.Lock()
	r := f.run
	f.mu.Unlock()
	if f.approver != nil {
		return false
	}
	_, in := r.attached()
	return in != nil && in.version >= stateless
}

// Decided reports whether nobody answers permission asks: neither the client's user nor an approver.
func (f *front) Decided() bool { return f.approver == nil && !f.ReachesPerson() }

// Ask implements [host.Client]. It sends the ask to the client, which asks its user. The answer is empty if the client
// cannot ask or the user dismisses the question.
func (f *front) Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	if ask.Permission != nil && f.approver != nil {
		f.waits(ask)
		return f.approver.Ask(ctx, ask)
	}
	if ask.Permission != nil && f.beside != nil {
		return firstAnswer(ctx, ask, f.askClient, f.askBeside)
	}
	return f.askClient(ctx, ask)
}

// unheard is the time that a permission ask waits for an answer elsewhere if the client cannot be told that it waits.
const unheard = time.Minute

// waits notifies the client that its call waits for a person, and where the person can answer. It reports whether the
// client receives notifications of the call.
func (f *front) waits(ask tool.Ask) bool {
	const where = "Somebody who may answer for this client can do it in the console of toolhost serve, or over HTTP: GET /v1/asks, then POST /v1/asks/ID."
	text := "The call waits for the answer to a permission request: " + oneLine(ask.Permission.Title) + " " + where
	data, err := json.Marshal(text)
	if err == nil {
		f.Log(tool.LogMessage{Level: "warning", Logger: "toolhost", Data: data})
	}
	f.notify(text, nil, 0)
	in := f.attached()
	return in != nil && in.token != nil
}

// askBeside asks in other hosts. If nobody can answer there, it returns at once.
func (f *front) askBeside(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	if s, ok := f.beside.(interface{ Supervised(context.Context) bool }); ok && !s.Supervised(ctx) {
		return f.beside.Ask(ctx, ask)
	}
	if f.waits(ask) {
		return f.beside.Ask(ctx, ask)
	}
	limited, cancel := context.WithTimeout(ctx, unheard)
	defer cancel()
	a, err := f.beside.Ask(limited, ask)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return tool.Answer{Outcome: tool.AnswerTimeout, Message: fmt.Sprintf("nobody answered within %v in the console of the toolhost serve that runs beside, and this client can neither ask its user nor show that a call waits. Repeat the call while somebody looks at the console, or let the operator add a rule", unheard)}, nil
	}
	return a, err
}

// firstAnswer asks several clients at once. It returns the first answer. It ignores clients that cannot ask anybody,
// unless this applies to all clients.
func firstAnswer(ctx context.Context, ask tool.Ask,
	clients ...func(context.Context, tool.Ask) (tool.Answer, error)) (tool.Answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answered struct {
		by     int
		answer tool.Answer
		err    error
	}
	answers := make(chan answered, len(clients))
	for i, client := range clients {
		go func() {
			a, err := client(ctx, ask)
			answers <- answered{i, a, err}
		}()
	}
	var nobody answered // why the first client could not be asked, if nobody can be asked
	for range clients {
		a := <-answers
		if a.err != nil || a.answer.Outcome != tool.NobodyToAsk {
			return a.answer, a.err
		}
		if a.by == 0 {
			nobody = a
		}
	}
	return nobody.answer, nil
}

// askClient sends an ask to the client.
func (f *front) askClient(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	f.mu.Lock()
	r := f.run
	f.mu.Unlock()
	requests, err := requestsOf(ask)
	if err != nil {
		return tool.Answer{Outcome: tool.NobodyToAsk, Message: err.Error()}, nil
	}
	type reply struct {
		answers mcp.InputResponseMap
		err     error
	}
	replies := make(chan reply, 1)
	go func() {
		answers, err := r.ask(requests, ask.Continuation)
		replies <- reply{answers, err}
	}()
	timer := time.NewTimer(f.patience)
	defer timer.Stop()
	select {
	case a := <-replies:
		if len(ask.Requests) > 0 {
			return answerRequests(a.answers, a.err)
		}
		res, _ := a.answers[answerKey].(*mcp.ElicitResult)
		if res == nil {
			res = &mcp.ElicitResult{Action: "cancel"}
		}
		return answer(ask, res, a.err)
	case <-timer.C:
		return tool.Answer{Outcome: tool.AnswerTimeout, Message: errTimeout.Error()}, nil
	case <-ctx.Done():
		return tool.Answer{}, ctx.Err()
	}
}

// AnswersRequests marks a client that takes [tool.Ask.Requests].
func (f *front) AnswersRequests() {}

// answerKey is the key of the question of an ask that is not a set of requests.
const answerKey = "answer"

// requestsOf converts an ask to requests to the client.
func requestsOf(ask tool.Ask) (mcp.InputRequestMap, error) {
	if len(ask.Requests) == 0 {
		return mcp.InputRequestMap{answerKey: form(ask)}, nil
	}
	all := make(map[string]tool.ClientRequest, len(ask.Requests))
	for _, r := range ask.Requests {
		if len(r.Params) == 0 {
			r.Params = json.RawMessage("{}")
		}
		all[r.Key] = r
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	var out mcp.InputRequestMap
	err = json.Unmarshal(raw, &out)
	return out, err
}

// answerRequests converts the client's answers to requests to an answer of the host.
func answerRequests(answers mcp.InputResponseMap, err error) (tool.Answer, error) {
	if err != nil {
		return answer(tool.Ask{}, nil, err)
	}
	content, err := json.Marshal(answers)
	if err != nil {
		return tool.Answer{}, err
	}
	return tool.Answer{Outcome: tool.Accepted, Content: content}, nil
}

// form converts an ask to the flat form that MCP clients can display.
func form(ask tool.Ask) *mcp.ElicitParams {
	if p := ask.Permission; p != nil {
		text := oneLine(p.Title)
		for _, pattern := range p.Patterns {
			text += "\n  " + clean(pattern)
		}
		if note, _ := p.Metadata["preview"].(string); note != "" {
			text += "\n" + clean(note)
		}
		if diff, ok := p.Metadata["diff"].(string); ok {
			text += "\n" + visible(cmp.Or(strings.TrimSuffix(diff, "\n"), "# no file is changed"))
		}
		schema := object("allow", map[string]any{
			"type": "boolean", "title": "Allow", "description": "Allow this call.",
		})
		if fields, ok := schema["properties"].(map[string]any); ok {
			fields["for"] = map[string]any{"type": "string", "title": "For how long",
				"enum": []string{host.ScopeOnce, host.ScopeSession, host.ScopeAlways}, "default": host.ScopeOnce}
		}
		return &mcp.ElicitParams{Mode: "form", Message: text, RequestedSchema: schema}
	}
	q := ask.Question
	var field map[string]any
	switch {
	case len(q.Options) == 0:
		field = map[string]any{"type": "string", "title": "Answer"}
	case q.Multiple:
		field = map[string]any{
			"type": "array", "title": "Choices", "items": map[string]any{"type": "string", "enum": q.Options},
		}
	case q.FreeText:
		field = map[string]any{"type": "string", "title": "Answer",
			"description": "One of these, or your own answer: " + strings.Join(q.Options, "; ")}
	default:
		field = map[string]any{"type": "string", "title": "Choice", "enum": q.Options}
	}
	switch {
	case len(q.Defaults) > 0 && q.Multiple:
		field["default"] = q.Defaults
	case len(q.Defaults) > 0:
		field["default"] = q.Defaults[0]
	}
	schema := object("answer", field)
	if q.Optional {
		delete(schema, "required")
	}
	return &mcp.ElicitParams{Mode: "form", Message: visible(q.Text), RequestedSchema: schema}
}

func object(name string, field map[string]any) map[string]any {
	return map[string]any{"type": "object", "properties": map[string]any{name: field}, "required": []string{name}}
}

// permission returns the user's answer to a permission ask, with the scope of the answer.
func permission(content map[string]any) tool.Answer {
	scope, _ := content["for"].(string)
	if allow, ok := content["allow"].(bool); ok && allow {
		return tool.Answer{Outcome: tool.Accepted, Values: []string{scope}}
	}
	if scope == host.ScopeAlways {
		scope = host.ScopeNever
	}
	return tool.Answer{Outcome: tool.Declined, Values: []string{scope}, Message: "the user declined"}
}

// invalidAnswer is a part of the error of the MCP library for an answer with wrong fields. The library has no type for
// it.
const invalidAnswer = "does not match requested schema"

// answer converts the client's answer to an answer of the host.
func answer(ask tool.Ask, res *mcp.ElicitResult, err error) (tool.Answer, error) {
	switch {
	case errors.Is(err, errTimeout):
		return tool.Answer{Outcome: tool.AnswerTimeout, Message: err.Error()}, nil
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return tool.Answer{}, err
	case err != nil && ask.Permission != nil && strings.Contains(err.Error(), invalidAnswer):
		return tool.Answer{Outcome: tool.Declined, Message: "the answer of the client is not valid: " + clean(err.Error())}, nil
	case err != nil: // not an error, because some clients cannot ask
		return tool.Answer{Outcome: tool.NobodyToAsk, Message: err.Error()}, nil //nolint:nilerr // see above
	case res.Action != "accept":
		return tool.Answer{Outcome: tool.Declined, Message: "the user declined"}, nil
	case ask.Permission != nil:
		return permission(res.Content), nil
	}
	var values []string
	switch v := res.Content["answer"].(type) {
	case string:
		values = []string{v}
	case []any:
		for _, item := range v {
			values = append(values, fmt.Sprint(item))
		}
	}
	if values == nil && (ask.Question == nil || !ask.Question.Optional) {
		return tool.Answer{Outcome: tool.Declined, Message: "the client sent no answer"}, nil
	}
	return tool.Answer{Outcome: tool.Accepted, Values: values}, nil
}

// loginAttempt is a login at the server of a field. It is shared by all calls that need it.
type loginAttempt struct {
	done chan struct{}
	err  error // set before done is closed
}

var (
	errDeclined = errors.New("the user declined to log in")
	errNoLogin  = errors.New("the client cannot open pages")
)

// aliveEvery is the time between two notifications of a call that waits for a login.
const aliveEvery = 10 * time.Second

// runCall runs a call. If the call fails because a remote server needs a login, and the client can open pages, it lets
// the user log in and runs the call once more. The remote server refused the first call, so nothing runs twice.
func (s *Server) runCall(ctx context.Context, call host.Request, f *front, pending *host.Pending) *tool.Result {
	res := pending.Run(ctx)
	field, scopes := host.NeededLogin(res)
	if field == "" || s.opts.Login == nil || !f.opensPages() {
		return res
	}
	switch err := s.login(ctx, f, field, scopes); {
	case err == nil:
		return s.host.Begin(call, f).Run(ctx)
	case ctx.Err() == nil:
		res.Error.Message += "\nThe login through the client failed: " + clean(err.Error()) + "."
	}
	return res
}

// login lets the user of a client log in at the server of a field. If another call has begun a login there, login waits
// for the end of that login.
func (s *Server) login(ctx context.Context, f *front, field string, scopes []string) error {
	for {
		s.mu.Lock()
		attempt, begun := s.logins[field]
		if !begun {
			attempt = &loginAttempt{done: make(chan struct{})}
			s.logins[field] = attempt
		}
		s.mu.Unlock()
		if !begun {
			attempt.err = s.showLogin(ctx, f, field, scopes)
			s.mu.Lock()
			delete(s.logins, field)
			s.mu.Unlock()
			close(attempt.done)
			return attempt.err
		}
		if err := f.await(ctx, attempt.done, field); err != nil {
			return err
		}
		if !errors.Is(attempt.err, context.Canceled) { // otherwise the call that showed the page has ended
			return attempt.err
		}
	}
}

// await waits for the end of a login that another call began.
func (f *front) await(ctx context.Context, done <-chan struct{}, field string) error {
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-alive.C:
			f.waiting(field)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (f *front) waiting(field string) {
	f.Progress("waiting for a login at the server of "+field, nil)
}

// showLogin shows the page for a login to the user and waits for the end of the login.
func (s *Server) showLogin(ctx context.Context, f *front, field string, scopes []string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(f.patience, func() { cancel(errTimeout) })
	defer late.Stop()
	id := rand.Text()
	ended := make(chan struct{})
	defer close(ended)
	go func() { _ = f.await(ctx, ended, field) }() // sends signs of life
	err := s.opts.Login(ctx, field, scopes, func(page string) {
		go func() {
			if err := f.openPage(ctx, id, page, fmt.Sprintf("The remote server of the field %s needs a login. Log in on this page; the call then continues.", field)); err != nil {
				cancel(err)
			}
		}()
	})
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if in := f.attached(); err == nil && in != nil && in.version < stateless {
		_ = in.session.NotifyElicitationComplete(ctx, &mcp.ElicitationCompleteParams{ElicitationID: id}) // an error means that the client is gone, which also ends the call
	}
	return err
}

// opensPages reports whether the client can show a page to its user.
func (f *front) opensPages() bool {
	in := f.attached()
	return in != nil && in.can(&mcp.ElicitParams{Mode: "url"})
}

// attached returns the request that waits for the call, or nil.
func (f *front) attached() *incoming {
	f.mu.Lock()
	r := f.run
	f.mu.Unlock()
	if r == nil {
		return nil
	}
	_, in := r.attached()
	return in
}

// openPage asks the client to show a page. It returns nil if its user agreed.
func (f *front) openPage(ctx context.Context, id, page, message string) error {
	const key = "login"
	params, err := json.Marshal(&mcp.ElicitParams{Mode: "url", URL: page, Message: message, ElicitationID: id})
	if err != nil {
		return err
	}
	a, err := f.askClient(ctx, tool.Ask{
		Requests: []tool.ClientRequest{{Key: key, Method: tool.MethodElicit, Params: params}},
	})
	switch {
	case err != nil:
		return err
	case a.Outcome == tool.AnswerTimeout:
		return errTimeout
	case a.Outcome != tool.Accepted:
		return errNoLogin
	}
	var answers map[string]*mcp.ElicitResult
	if err := json.Unmarshal(a.Content, &answers); err != nil || answers[key] == nil ||
		answers[key].Action != "accept" {
		return errDeclined
	}
	return nil
}
