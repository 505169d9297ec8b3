package mount

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

func TestForms(t *testing.T) {
	fields := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"f%d":{"type":"string"}`, i))
		}
		return `{"type":"object","properties":{` + strings.Join(all, ",") + `}}`
	}
	for schema, refused := range map[string]string{
		`{"type":"object","properties":{"name":{"type":"string","default":"Ada"},"age":{"type":"integer","minimum":1},"ok":{"type":"boolean"},"c":{"type":"string","oneOf":[{"const":"a","title":"A"}]}}}`: "",
		`{"type":"object","properties":{"m":{"type":"array","items":{"type":"string","enum":["a","b"]},"minItems":1}}}`:                                                                                    "",
		`{"type":"object","properties":{"m":{"type":"array","items":{"anyOf":[{"const":"a","title":"A"},{"const":"b","title":"B"}]},"maxItems":2,"default":["a"]}}}`:                                       "",
		`{"type":"object","properties":{"m":{"type":"array","items":{}}}}`:                                                                                                                                 `field "m"`,
		`{"type":"object","properties":{"m":{"type":"array","items":{"type":"array","enum":[["a"]]}}}}`:                                                                                                    `field "m"`,
		fields(32): "",
		fields(33): "33 fields",
		`{"type":"object","properties":{"x":{"type":"object","properties":{"y":{"type":"string"}}}}}`:                                    `field "x"`,
		`{"type":"object","properties":{"x":{"type":"array","items":{"type":"object"}}}}`:                                                `field "x"`,
		`{"type":"object","properties":{"x":{"type":"string","$ref":"https://example.com/schema"}}}`:                                     "refers to other schemas",
		`{"type":"object","properties":{"x":{"type":"string","description":"` + strings.Repeat("y", maxForm) + `"},"z":{"type":"any"}}}`: `field "z"`,
		`{"type":"object","properties":{"x":{"type":"string","enum":["` + strings.Repeat("y", maxForm) + `"]}}}`:                         "bytes",
	} {
		_, err := checkForm(&mcp.ElicitParams{RequestedSchema: json.RawMessage(schema)})
		if (err == nil) != (refused == "") || err != nil && !strings.Contains(err.Error(), refused) {
			t.Errorf("%.80s: %v, want %q", schema, err, refused)
		}
	}
	if _, err := checkForm(&mcp.ElicitParams{Mode: "url", URL: "file:///etc/passwd"}); err == nil {
		t.Error("a file is opened")
	}
	clean, err := checkForm(&mcp.ElicitParams{RequestedSchema: json.RawMessage(`{"type":"object","properties":{"x":{"type":"string","title":"\u001b[31mred"}}}`)})
	if err != nil || strings.Contains(string(clean), "u001b") {
		t.Errorf("%s %v", clean, err)
	}
}

// TestChoicesAreChecked checks the answers to a choice of several titled values.
func TestChoicesAreChecked(t *testing.T) {
	form, err := checkForm(&mcp.ElicitParams{RequestedSchema: json.RawMessage(`{"type":"object","properties":{"m":{"type":"array","items":{"anyOf":[{"const":"a","title":"A"},{"const":"b","title":"B"}]},"minItems":1}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		given []any
		fits  bool
	}{{[]any{"a", "b"}, true}, {[]any{"b"}, true}, {[]any{"A"}, false}, {[]any{}, false}} {
		if err := checkAnswer(form, &mcp.ElicitResult{Action: "accept", Content: map[string]any{"m": tc.given}}); (err == nil) != tc.fits {
			t.Errorf("%v: %v", tc.given, err)
		}
	}
}

func TestAnswersAreChecked(t *testing.T) {
	form := json.RawMessage(`{"type":"object","properties":{"age":{"type":"integer","minimum":1},"name":{"type":"string"}},"required":["age"]}`)
	for _, tc := range []struct {
		content map[string]any
		fits    bool
	}{{map[string]any{"age": 3.0}, true}, {map[string]any{"age": 0.0}, false}, {map[string]any{"age": "3"}, false}, {map[string]any{}, false}, {map[string]any{"age": 3.0, "secret": "x"}, true}} {
		res := &mcp.ElicitResult{Action: "accept", Content: tc.content}
		if err := checkAnswer(form, res); (err == nil) != tc.fits {
			t.Errorf("%v: %v", tc.content, err)
		}
		if res.Content["secret"] != nil {
			t.Error("the server gets a field that it did not ask for")
		}
	}
	res := &mcp.ElicitResult{Action: "decline", Content: map[string]any{"age": 3.0}}
	if err := checkAnswer(form, res); err != nil || res.Content != nil {
		t.Errorf("%v %v", res, err)
	}
}

// TestCapabilities checks that a server sees only capabilities that the client has and that the operator allows.
//
//nolint:staticcheck // servers still read the level of log messages
func TestCapabilities(t *testing.T) {
	call := func(caps string) *sdk.Call {
		return &sdk.Call{Call: &tool.Call{Client: &tool.ClientInfo{Capabilities: json.RawMessage(caps), LogLevel: "info"}}}
	}
	all := `{"sampling":{},"roots":{},"elicitation":{"form":{},"url":{}}}`
	for _, tc := range []struct {
		cfg  Config
		caps string
		want string
	}{
		{Config{}, all, `{"elicitation":{"form":{}}}`},
		{Config{}, `{"elicitation":{}}`, `{"elicitation":{"form":{}}}`},
		{Config{}, `{"elicitation":{"url":{}}}`, `{}`},
		{Config{}, `nonsense`, `{}`},
		{Config{Allow: []string{}}, all, `{}`},
		{Config{Allow: []string{allowSampling, allowRoots, allowURL}}, all, `{"elicitation":{"url":{}},"roots":{},"sampling":{}}`},
		{Config{Allow: []string{allowSampling, allowRoots}}, `{}`, `{}`},
	} {
		meta := (&mount{cfg: tc.cfg}).meta(call(tc.caps))
		got, _ := json.Marshal(meta[mcp.MetaKeyClientCapabilities])
		if string(got) != tc.want || meta[mcp.MetaKeyLogLevel] != nil {
			t.Errorf("%v %s: %s, want %s", tc.cfg.Allow, tc.caps, got, tc.want)
		}
	}
	if meta := (&mount{cfg: Config{Offer: []string{offerLogging}}}).meta(call(all)); meta[mcp.MetaKeyLogLevel] != "info" {
		t.Errorf("%v", meta)
	}
}

// TestOtherSessions checks that a request is attributed only if all running calls belong to one session.
func TestOtherSessions(t *testing.T) {
	var r running
	start := func(session string) string {
		return r.add(newActive(t.Context(), &sdk.Call{Call: &tool.Call{SessionID: session}}, nil))
	}
	if r.ofOneSession() != nil {
		t.Error("no call runs")
	}
	start("a")
	start("a")
	if a := r.ofOneSession(); a == nil || a.SessionID != "a" {
		t.Errorf("%+v", a)
	}
	other := start("b")
	if r.ofOneSession() != nil {
		t.Error("a request is attributed to one of two sessions")
	}
	r.remove(other)
	if r.ofOneSession() == nil {
		t.Error("the other session is not forgotten")
	}
}

func TestFlood(t *testing.T) {
	now := time.Now()
	f := flood{now: func() time.Time { return now }}
	passed := 0
	for range 200 {
		if _, ok := f.permit("s"); ok {
			passed++
		}
	}
	now = now.Add(time.Second)
	dropped, ok := f.permit("s")
	again, _ := f.permit("s")
	if passed != maxRate || dropped != 200-maxRate || !ok || again != 0 {
		t.Errorf("%d passed, %d dropped, then %d", passed, dropped, again)
	}
}

func TestSubscriptions(t *testing.T) {
	var s subscriptions
	up := 0
	known := 0
	add := func(session, uri string) error {
		again, err := s.add(session, uri, func() error { up++; return nil })
		if again {
			known++
		}
		return err
	}
	remove := func(session, uri string) error { return s.remove(session, uri, func() error { up--; return nil }) }
	for range 2 {
		if err := add("a", "x:1"); err != nil {
			t.Fatal(err)
		}
	}
	if err := add("b", "x:1"); err != nil || up != 1 || s.n != 2 || known != 1 {
		t.Errorf("%v %d %d %d", err, up, s.n, known)
	}
	if err := remove("a", "x:1"); err != nil || up != 1 {
		t.Errorf("%v %d", err, up)
	}
	if err := remove("b", "x:1"); err != nil || up != 0 || s.n != 0 || len(s.by) != 0 {
		t.Errorf("%v %d %d", err, up, s.n)
	}
	for i := range maxSubscriptions {
		if err := add("a", fmt.Sprint("x:", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := add("b", "x:more"); err == nil {
		t.Error("there is no limit")
	}
}

func TestBlocks(t *testing.T) {
	received, err := unfolded(&mcp.CallToolResult{Content: []mcp.Content{
		&mcp.TextContent{Text: "first"}, &mcp.ImageContent{Data: []byte{1}, MIMEType: "image/png", Annotations: &mcp.Annotations{Priority: 1}},
		&mcp.ResourceLink{URI: "file:///x", Name: "x"}, &mcp.TextContent{}, &mcp.TextContent{Text: "last", Meta: mcp.Meta{"k": 1}},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := result(received)
	if err != nil {
		t.Fatal(err)
	}
	if res.Output != "first\nResource file:///x (x)\n\nlast" || len(res.Attachments) != 1 || len(res.Contents) != 5 {
		t.Errorf("%+v", res)
	}
	got := ""
	for _, c := range res.Contents {
		got += fmt.Sprintf("%d %d %s; ", c.Text, c.Attachment, c.Block)
	}
	if got != `5 0 ; 0 1 {"annotations":{"priority":1}}; 22 0 {"type":"resource_link","uri":"file:///x","name":"x"}; 0 0 {}; 4 0 {"_meta":{"k":1}}; ` {
		t.Error(got)
	}
}

// TestSilence checks that a call does not end while a question is open, whatever else the server sends, and that it
// ends when the server is silent after the last answer.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		s := newSilence(time.Minute, func() { ended.Store(true) })
		expect := func(want bool, when string) {
			t.Helper()
			if synctest.Wait(); ended.Load() != want {
				t.Fatalf("%s: the call ended: %v", when, !want)
			}
		}
		first, second := s.wait(), s.wait()
		s.heard()
		time.Sleep(time.Hour)
		expect(false, "two questions are open")
		first()
		time.Sleep(time.Hour)
		expect(false, "one question is open")
		second()
		time.Sleep(59 * time.Second)
		s.heard()
		time.Sleep(59 * time.Second)
		expect(false, "the server sent something")
		time.Sleep(2 * time.Second)
		expect(true, "silence")
	})
}
