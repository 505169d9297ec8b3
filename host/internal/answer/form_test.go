package answer

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
)

// asked is a client with prepared answers. It keeps the questions.
type asked struct {
	Nobody
	answers   []tool.Answer
	questions []tool.Question
}

func (a *asked) Ask(_ context.Context, ask tool.Ask) (tool.Answer, error) {
	a.questions = append(a.questions, *ask.Question)
	next := a.answers[0]
	a.answers = a.answers[1:]
	return next, nil
}

func says(values ...string) tool.Answer {
	return tool.Answer{Outcome: tool.Accepted, Values: values}
}

// TestForms checks which content a form has after which answers, and which answers decline it.
func TestForms(t *testing.T) {
	const (
		boolean = `{"properties":{"sure":{"type":"boolean"}},"required":["sure"]}`
		number  = `{"properties":{"n":{"type":"integer"}},"required":["n"]}`
		titled  = `{"properties":{"size":{"type":"string","oneOf":[{"const":"s","title":"Small"},{"const":"l","title":"Large"}],"default":"l"}}}`
		bounded = `{"properties":{"days":{"type":"array","minItems":1,"maxItems":2,"items":{"anyOf":[{"const":"mo","title":"Monday"},{"const":"tu","title":"Tuesday"},{"const":"we","title":"Wednesday"}]}}},"required":["days"]}`
		several = `{"properties":{"days":{"type":"array","items":{"type":"string","enum":["mo","tu"]}}},"required":["days"]}`
	)
	decline, nobody := tool.Answer{Outcome: tool.Declined}, tool.Answer{Outcome: tool.NobodyToAsk}
	for name, tc := range map[string]struct {
		params  string
		answers []tool.Answer
		outcome tool.Outcome
		content string
	}{
		"a form without fields, yes":       {`{"message":"Go on?"}`, []tool.Answer{says("yes")}, tool.Accepted, `{}`},
		"a form without fields, no":        {`{"message":"Go on?"}`, []tool.Answer{says("no")}, tool.Declined, ``},
		"a form without fields, nothing":   {`{"message":"Go on?"}`, []tool.Answer{says(), says(), says()}, tool.NobodyToAsk, ``},
		"a form without fields, Ctrl-D":    {`{"message":"Go on?"}`, []tool.Answer{decline}, tool.Declined, ``},
		"a page, no":                       {`{"mode":"url","url":"https://x.example/"}`, []tool.Answer{says("no")}, tool.Declined, ``},
		"a page, yes":                      {`{"mode":"url","url":"https://x.example/"}`, []tool.Answer{says("y")}, tool.Accepted, `{}`},
		"a boolean, y":                     {`{"requestedSchema":` + boolean + `}`, []tool.Answer{says("Y")}, tool.Accepted, `{"sure":true}`},
		"a boolean, no":                    {`{"requestedSchema":` + boolean + `}`, []tool.Answer{says("no")}, tool.Accepted, `{"sure":false}`},
		"a boolean, a typo":                {`{"requestedSchema":` + boolean + `}`, []tool.Answer{says("yse"), says("true")}, tool.Accepted, `{"sure":true}`},
		"a number, a typo":                 {`{"requestedSchema":` + number + `}`, []tool.Answer{says("4o"), says(" 40 ")}, tool.Accepted, `{"n":40}`},
		"a number, typos only":             {`{"requestedSchema":` + number + `}`, []tool.Answer{says("a"), says("b"), says("c")}, tool.NobodyToAsk, ``},
		"a number, nobody after a typo":    {`{"requestedSchema":` + number + `}`, []tool.Answer{says("a"), nobody}, tool.NobodyToAsk, ``},
		"a choice by its title":            {`{"requestedSchema":` + titled + `}`, []tool.Answer{says("Small")}, tool.Accepted, `{"size":"s"}`},
		"a choice by its value":            {`{"requestedSchema":` + titled + `}`, []tool.Answer{says("l")}, tool.Accepted, `{"size":"l"}`},
		"a choice that is none":            {`{"requestedSchema":` + titled + `}`, []tool.Answer{says("medium"), says("large")}, tool.Accepted, `{"size":"l"}`},
		"an optional choice, left open":    {`{"requestedSchema":` + titled + `}`, []tool.Answer{says()}, tool.Accepted, `{}`},
		"several choices":                  {`{"requestedSchema":` + several + `}`, []tool.Answer{says("mo", "tu")}, tool.Accepted, `{"days":["mo","tu"]}`},
		"titled choices":                   {`{"requestedSchema":` + bounded + `}`, []tool.Answer{says("Monday", "we")}, tool.Accepted, `{"days":["mo","we"]}`},
		"too few and too many choices":     {`{"requestedSchema":` + bounded + `}`, []tool.Answer{says(), says("mo", "tu", "we"), says("tu")}, tool.Accepted, `{"days":["tu"]}`},
		"several choices, one that is not": {`{"requestedSchema":` + several + `}`, []tool.Answer{says("mo", "su"), says("mo")}, tool.Accepted, `{"days":["mo"]}`},
	} {
		c := &asked{answers: tc.answers}
		content, outcome, err := fillIn(t.Context(), c, json.RawMessage(tc.params))
		if err != nil || outcome != tc.outcome || len(c.answers) != 0 {
			t.Errorf("%s: outcome %q, error %v, %d answers are left; want %q", name, outcome, err, len(c.answers), tc.outcome)
		}
		if got, _ := json.Marshal(content); outcome == tool.Accepted && string(got) != tc.content {
			t.Errorf("%s: %s, want %s", name, got, tc.content)
		}
		for i, q := range c.questions[1:] {
			if !strings.Contains(q.Text, " is not ") && !strings.Contains(q.Text, "Give one answer.") && !strings.Contains(q.Text, "Choose at ") {
				t.Errorf("%s: question %d does not say what was wrong: %q", name, i+2, q.Text)
			}
		}
	}
}

// TestQuestions checks what the user of a form sees: required fields first, otherwise the order of the form, and titles
// instead of values.
func TestQuestions(t *testing.T) {
	params := `{"message":"Book","requestedSchema":{"required":["when"],"properties":{
		"seat":{"type":"string","enum":["a","w"],"enumNames":["Aisle","Window"],"default":"w"},
		"note":{"type":"string"},
		"when":{"type":"string","title":"Date"}}}}`
	c := &asked{answers: []tool.Answer{says("today"), says("Aisle"), says()}}
	content, _, err := fillIn(t.Context(), c, json.RawMessage(params))
	if err != nil || !reflect.DeepEqual(content, map[string]any{"when": "today", "seat": "a"}) {
		t.Fatalf("content %v, error %v", content, err)
	}
	var texts []string
	for _, q := range c.questions {
		texts = append(texts, q.Text)
	}
	if want := []string{"Book\nDate", "Book\nseat", "Book\nnote"}; !slices.Equal(texts, want) {
		t.Errorf("the questions are %q, want %q", texts, want)
	}
	if q := c.questions[1]; !slices.Equal(q.Options, []string{"Aisle", "Window"}) || !slices.Equal(q.Defaults, []string{"Window"}) || !q.Optional {
		t.Errorf("the choice is %+v", q)
	}
}
