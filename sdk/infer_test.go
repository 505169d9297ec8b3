package sdk_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

type embedded struct {
	Common string `json:"common,omitempty" jsonschema:"of all" path:"read"`
}

type inner struct {
	Old   string `json:"old"`
	Count int    `json:"count" default:"1" min:"0"`
}

type everything struct {
	embedded
	Path    string   `json:"path" jsonschema:"where" path:"write"`
	Limit   int      `json:"limit" default:"10" min:"1" max:"99"`
	Word    string   `json:"word" default:"true"`
	Mode    string   `json:"mode,omitempty" enum:"a,b"`
	Level   int      `json:"level,omitempty" enum:"1,2"`
	Kinds   []string `json:"kinds,omitempty" enum:"x,y"`
	Flag    *bool    `json:"flag,omitempty"`
	Edits   []inner  `json:"edits,omitempty"`
	Maybe   *inner   `json:"maybe,omitempty"`
	List    []string `json:"list" default:"[\"a\"]"`
	Ratio   float64  `json:"ratio,omitempty" min:"-0.5"`
	Plain   string
	Skipped string `json:"-"`
	private string
}

func TestSchemaFor(t *testing.T) {
	_ = everything{}.private
	raw, err := sdk.SchemaFor[everything]()
	if err != nil {
		t.Fatal(err)
	}
	s, err := tool.ParseSchema(raw)
	if err != nil {
		t.Fatal(err)
	}
	type param struct {
		typ, def, path string
		required       bool
		enum           []any
	}
	want := map[string]param{
		"path": {typ: "string", path: "write", required: true}, "Plain": {typ: "string", required: true},
		"common": {typ: "string", path: "read"}, "limit": {typ: "integer", def: "10"}, "word": {typ: "string", def: `"true"`},
		"mode": {typ: "string", enum: []any{"a", "b"}}, "level": {typ: "integer", enum: []any{1.0, 2.0}}, "kinds": {typ: "array of string"},
		"flag": {typ: "boolean"}, "edits": {typ: "array of object"}, "maybe": {typ: "object"}, "list": {typ: "array of string", def: `["a"]`}, "ratio": {typ: "number"},
	}
	for _, p := range s.Params() {
		got := param{p.TypeName(), string(p.Default), p.Path, p.Required, p.Enum}
		if !reflect.DeepEqual(got, want[p.Name]) {
			t.Errorf("%s: %+v, wanted %+v", p.Name, got, want[p.Name])
		}
		delete(want, p.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	if d := s.Param("path").Description; d != "where" {
		t.Errorf("description %q", d)
	}
	for args, bad := range map[string]string{
		`{"path":"a","Plain":""}`:                                  "",
		`{"path":"a","Plain":"","level":2,"kinds":["x","y"]}`:      "",
		`{"path":"a","Plain":"","level":3}`:                        "level",
		`{"path":"a","Plain":"","kinds":["z"]}`:                    "kinds",
		`{"path":"a","Plain":"","limit":0}`:                        "limit",
		`{"path":"a","Plain":"","edits":[{"old":"x"}]}`:            "",
		`{"path":"a","Plain":"","edits":[{"old":"x","count":-1}]}`: "edits",
		`{"path":"a","Plain":"","maybe":{"count":1}}`:              "maybe",
		`{"path":"a","Plain":"","other":1}`:                        "other",
	} {
		var m map[string]json.RawMessage
		if err := json.Unmarshal([]byte(args), &m); err != nil {
			t.Fatal(err)
		}
		_, got := s.Check(m)
		if (bad == "") != (len(got) == 0) || bad != "" && got[0].Param != bad {
			t.Errorf("%s: %v, wanted %q", args, got, bad)
		}
	}
}

func TestSchemaForRefuses(t *testing.T) {
	type badMin struct {
		N int `json:"n" min:"x"`
	}
	type badEnum struct {
		N int `json:"n" enum:"1,two"`
	}
	type nested struct {
		In []badMin `json:"in"`
	}
	type badFunc struct {
		F func() `json:"f"`
	}
	for name, tc := range map[string]struct {
		infer func() (json.RawMessage, error)
		want  string
	}{
		"min": {sdk.SchemaFor[badMin], "field N: tag min"}, "enum": {sdk.SchemaFor[badEnum], `"two" is not of type integer`},
		"nested": {sdk.SchemaFor[nested], "tag min"}, "func": {sdk.SchemaFor[badFunc], "func"},
	} {
		if _, err := tc.infer(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
