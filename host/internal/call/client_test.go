package call_test

import (
	"context"
	"fmt"
	"testing"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/answer"
	"toolhost.dev/host/internal/call"
)

// plain is a caller without optional methods. It records its events.
type plain struct{ events []string }

func (p *plain) Progress(title string, _ map[string]any) { p.add("progress " + title) }
func (p *plain) Output(s tool.Stream, chunk []byte)      { p.add(fmt.Sprint("output ", s, string(chunk))) }
func (p *plain) add(event string)                        { p.events = append(p.events, event) }
func (p *plain) Ask(context.Context, tool.Ask) (a tool.Answer, err error) {
	p.add("ask")
	return a, err
}

// Callers with one optional method each.
type (
	logging  struct{ *plain }
	reaching struct{ *plain }
	decided  struct{ *plain }
	serving  struct{ *plain }
)

func (l logging) Log(m tool.LogMessage) { l.add("log " + string(m.Data)) }
func (reaching) ReachesPerson() bool    { return true }
func (decided) Decided() bool           { return true }
func (serving) AnswersRequests()        {}

// whole is a caller with all methods of a client.
type whole struct{ logging }

func (whole) ReachesPerson() bool   { return true }
func (whole) Decided() bool         { return true }
func (whole) Parks() bool           { return false }
func (whole) AnswersRequests() bool { return true }

// TestComplete checks that a completed caller, and the client with which the host wraps it, have exactly the optional
// methods of the caller.
func TestComplete(t *testing.T) {
	for name, wrap := range map[string]func(call.Caller) call.Client{
		"completed": call.Complete,
		"twice":     func(c call.Caller) call.Client { return call.Complete(call.Complete(c)) },
		"wrapped":   func(c call.Caller) call.Client { return answer.Client(context.Background(), c, "", new(call.Running)) },
	} {
		for _, of := range []func(*plain) call.Caller{
			func(p *plain) call.Caller { return p }, func(p *plain) call.Caller { return logging{p} }, func(p *plain) call.Caller { return reaching{p} },
			func(p *plain) call.Caller { return decided{p} }, func(p *plain) call.Caller { return serving{p} }, func(p *plain) call.Caller { return whole{logging{p}} },
		} {
			p := new(plain)
			caller := of(p)
			c := wrap(caller)
			c.Log(tool.LogMessage{Data: []byte(`"x"`)})
			c.Progress("title", nil)
			c.Output(tool.Stdout, []byte("text"))
			_, _ = c.Ask(t.Context(), tool.Ask{})
			events := []string{"progress title", fmt.Sprint("output ", tool.Stdout, "text"), "ask"}
			_, full := caller.(whole)
			_, logs := caller.(logging)
			if full || logs {
				events = append([]string{`log "x"`}, events...)
			}
			if fmt.Sprint(p.events) != fmt.Sprint(events) {
				t.Errorf("%s %T: %q, want %q", name, caller, p.events, events)
			}
			_, reaches := caller.(reaching)
			_, decides := caller.(decided)
			_, serves := caller.(serving)
			if c.ReachesPerson() != (reaches || full) || c.Decided() != (decides || full) || c.AnswersRequests() != (serves || full) {
				t.Errorf("%s %T: reaches a person %t, decided %t, answers requests %t", name, caller, c.ReachesPerson(), c.Decided(), c.AnswersRequests())
			}
		}
	}
}
