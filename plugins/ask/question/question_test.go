package question

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// user is a host for tests. It returns the given answers to questions, in order.
type user struct {
	answers []tool.Answer
	asked   []tool.Question
}

func (*user) Progress(string, map[string]any) {}
func (*user) Output(tool.Stream, []byte)      {}
func (u *user) Ask(ctx context.Context, a tool.Ask) (tool.Answer, error) {
	u.asked = append(u.asked, *a.Question)
	if len(u.answers) == 0 { // if no answers are left, wait until the call ends
		<-ctx.Done()
		return tool.Answer{}, ctx.Err()
	}
	next := u.answers[0]
	u.answers = u.answers[1:]
	return next, nil
}

func (*user) FileStates(context.Context, ...string) (map[string]tool.FileState, error) {
	return nil, nil
}

func accepted(values ...string) tool.Answer {
	return tool.Answer{Outcome: tool.Accepted, Values: values}
}

// TestSeveralQuestions checks that questions are asked in order until one has no answer.
func TestSeveralQuestions(t *testing.T) {
	two := []item{{Question: "Why?"}, {Question: "Which?", Options: []string{"a", "b"}}}
	for name, tc := range map[string]struct {
		in      args
		answers []tool.Answer
		outcome string
		text    string
		asked   int
	}{
		"both":           {args{Questions: two}, []tool.Answer{accepted("because"), accepted("b")}, answered, "Why?\n> because\nWhich?\n> b\n", 2},
		"first declined": {args{Questions: two}, []tool.Answer{{Outcome: tool.Declined}}, declined, "declined", 1},
		"nobody":         {args{Questions: two}, []tool.Answer{{Outcome: tool.NobodyToAsk}}, unavailable, "nobody to ask", 1},
		"both forms":     {args{Question: "Why?", Questions: two}, nil, "", "Remove one of the two", 0},
		"an empty one":   {args{Questions: []item{{Question: "Why?"}, {}}}, nil, "", "Question 2: The question is empty", 0},
	} {
		u := &user{answers: tc.answers}
		res, err := ask(t.Context(), sdk.NewCall(&tool.Call{}, u), tc.in)
		var d data
		text := ""
		switch {
		case err != nil:
			text = err.Error()
		case json.Unmarshal(res.Data, &d) != nil:
			t.Errorf("%s: data %s", name, res.Data)
		case res.Error != nil:
			text = res.Error.Message
		default:
			text = res.Output
		}
		if d.Outcome != tc.outcome || !strings.Contains(text, tc.text) || len(u.asked) != tc.asked || (d.Outcome == "") != (len(d.Questions) == 0) {
			t.Errorf("%s: %+v, %q, asked %d times", name, d, text, len(u.asked))
		}
	}
}

func TestOutcomes(t *testing.T) {
	for name, tc := range map[string]struct {
		in      args
		answers []tool.Answer
		outcome string
		text    string
		asked   int
	}{
		"free":            {args{Question: "Why?"}, []tool.Answer{accepted("because")}, answered, "because", 1},
		"option":          {args{Question: "Which?", Options: []string{"a", "b"}}, []tool.Answer{accepted("b")}, answered, "b", 1},
		"several":         {args{Question: "Which?", Options: []string{"a", "b", "c"}, Multiple: true}, []tool.Answer{accepted("c", "a")}, answered, "c\na", 1},
		"own":             {args{Question: "Which?", Options: []string{"a"}, FreeText: true}, []tool.Answer{accepted("z")}, answered, "z", 1},
		"asked again":     {args{Question: "Which?", Options: []string{"a"}}, []tool.Answer{accepted("z"), accepted("a")}, answered, "a", 2},
		"never an option": {args{Question: "Which?", Options: []string{"a"}}, []tool.Answer{accepted("z"), accepted("y"), accepted("x")}, declined, `"x" is not one of the options`, 3},
		"two for one":     {args{Question: "Which?", Options: []string{"a", "b"}}, []tool.Answer{accepted("a", "b"), accepted("a")}, answered, "a", 2},
		"empty":           {args{Question: "Why?"}, []tool.Answer{accepted(" "), {Outcome: tool.Declined}}, declined, "declined", 2},
		"declined":        {args{Question: "Why?"}, []tool.Answer{{Outcome: tool.Declined, Message: "go away"}}, declined, "(go away)", 1},
		"host's time":     {args{Question: "Why?"}, []tool.Answer{{Outcome: tool.AnswerTimeout}}, timedOut, "did not answer within 10m0s", 1},
		"own time":        {args{Question: "Why?", Timeout: 20}, nil, timedOut, "did not answer within 20ms", 1},
		"nobody":          {args{Question: "Why?"}, []tool.Answer{{Outcome: tool.NobodyToAsk, Message: "no terminal"}}, unavailable, "nobody to ask (no terminal)", 1},
	} {
		t.Run(name, func(t *testing.T) {
			u := &user{answers: tc.answers}
			res, err := ask(t.Context(), sdk.NewCall(&tool.Call{}, u), tc.in)
			if err != nil {
				t.Fatal(err)
			}
			var d data
			if err := json.Unmarshal(res.Data, &d); err != nil || d.Outcome != tc.outcome || (d.Outcome == answered) != (len(d.Answers) > 0) {
				t.Errorf("%s %v", res.Data, err)
			}
			text := res.Output
			if res.Error != nil {
				text = res.Error.Message
			}
			if (res.Error != nil) != (tc.outcome == unavailable) || !strings.Contains(text, tc.text) || len(u.asked) != tc.asked {
				t.Errorf("%q %v, asked %d times", text, res.Error, len(u.asked))
			}
		})
	}
}

func TestCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if res, err := ask(ctx, sdk.NewCall(&tool.Call{}, &user{}), args{Question: "Why?"}); err == nil {
		t.Errorf("%+v", res)
	}
}

func TestBadQuestions(t *testing.T) {
	for want, in := range map[string]args{
		"is empty":          {Question: " "},
		"the limit is 4000": {Question: strings.Repeat("x", 4001)},
		"21 options":        {Question: "q", Options: strings.Split(strings.Repeat("x", 21), "")},
		"Option 2 is empty": {Question: "q", Options: []string{"a", ""}},
		"twice":             {Question: "q", Options: []string{"a", "a"}},
		"more than 500":     {Question: "q", Options: []string{strings.Repeat("x", 501)}},
		"options is empty":  {Question: "q", Multiple: true},
		"a number from 1":   {Question: "q", Timeout: 1 << 40},
	} {
		u := &user{}
		if _, err := ask(t.Context(), sdk.NewCall(&tool.Call{}, u), in); err == nil || !strings.Contains(err.Error(), want) || len(u.asked) > 0 {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := sdk.New(Plugin()); err != nil {
		t.Error(err)
	}
}
