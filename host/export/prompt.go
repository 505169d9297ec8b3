package export

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"
)

const xmlIntro = `You can call tools. To call one or several, write this and stop; the results come in the next message:

<tool_calls>
<invoke name="TOOL">
<parameter name="PARAMETER">value</parameter>
</invoke>
</tool_calls>

A value stands between its tags as it is, with no escapes and nothing added. Arrays and objects are written in JSON.
`

const jsonIntro = `You can call tools. To call one or several, write one JSON object like this and stop; the results come in the next message:

{"tool_calls":[{"name":"TOOL","arguments":{"PARAMETER":"value"}}]}
`

// Prompt returns the part of a system prompt that describes the tools and the syntax of calls. The format is XML or
// JSON.
func Prompt(format Format, functions []Function) (string, error) {
	var out strings.Builder
	if format == JSONPrompt {
		out.WriteString(jsonIntro + "\nThe tools:\n")
		for _, f := range functions {
			out.WriteByte('\n')
			enc := json.NewEncoder(&out)
			enc.SetEscapeHTML(false)
			if err := enc.Encode(f.formatted(Anthropic)); err != nil {
				return "", fmt.Errorf("the tool %s: %w", f.Tool, err)
			}
		}
		return out.String(), nil
	}
	out.WriteString(xmlIntro + "\n<tools>\n")
	for _, f := range functions {
		if err := f.xml(&out); err != nil {
			return "", fmt.Errorf("the tool %s: %w", f.Tool, err)
		}
	}
	out.WriteString("</tools>\n")
	return out.String(), nil
}

func (f *Function) xml(out *strings.Builder) error {
	schema, err := tool.ParseSchema(f.Schema)
	if err != nil {
		return err
	}
	var raw struct {
		Properties map[string]struct{ Items json.RawMessage }
	}
	if err := json.Unmarshal(f.Schema, &raw); err != nil {
		return err
	}
	fmt.Fprintf(out, "<tool name=\"%s\">\n<description>%s</description>\n", f.Name, escape(f.Description))
	for _, p := range schema.Params() {
		fmt.Fprintf(out, "<parameter name=\"%s\" type=\"%s\"", escape(p.Name), escape(p.TypeName()))
		if p.Required {
			out.WriteString(` required="true"`)
		}
		if p.Default != nil {
			fmt.Fprintf(out, " default=\"%s\"", escape(strings.Trim(string(p.Default), `"`)))
		}
		if p.Enum != nil {
			fmt.Fprintf(out, " enum=\"%s\"", escape(strings.Join(p.EnumNames(), "|")))
		}
		fmt.Fprintf(out, ">%s", escape(p.Description))
		if items := raw.Properties[p.Name].Items; slices.Contains(p.ItemTypes, "object") {
			fmt.Fprintf(out, "\n<items>%s</items>", escape(string(items)))
		}
		out.WriteString("</parameter>\n")
	}
	out.WriteString("</tool>\n")
	return nil
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // the error is ignored, because a Builder returns no errors
	// Restore line breaks and quotes. XML text permits them unescaped, and models read them better.
	return strings.NewReplacer("&#xA;", "\n", "&#x9;", "\t", "&#39;", "'", "&#34;", "&quot;").Replace(b.String())
}
