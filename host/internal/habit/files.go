package habit

import (
	"encoding/json"
	"fmt"
	"strings"

	"toolhost.dev/sdk/tool"
)

// lines converts the numbers of the first and the last line to an offset and a limit.
func lines(c *call) {
	first, from := c.integer("start_line")
	last, to := c.integer("end_line")
	switch {
	case from && first < 1 || to && last < 1 && last != -1:
		c.fail("lines are counted from 1")
	case from && to && last != -1 && last < first:
		c.fail("the last line %d is before the first line %d", last, first)
	}
	if from {
		c.set("offset", first)
	}
	if to && last != -1 {
		c.set("limit", last-max(first, 1)+1)
	}
}

// viewRange converts a list with the first and the last line number. The number -1 means the end of the file.
func viewRange(c *call) {
	raw, ok := c.take("view_range")
	if !ok {
		return
	}
	var list []int
	if json.Unmarshal([]byte(unquoted(raw)), &list) != nil || len(list) != 0 && len(list) != 2 {
		c.fail("parameter \"view_range\" is not a list of two line numbers")
		return
	}
	if len(list) == 2 {
		c.set("start_line", list[0])
		c.set("end_line", list[1])
	}
	lines(c)
}

// textEditor converts a call of Anthropic's text editor. A parameter of this editor selects the operation.
func textEditor(c *call) tool.Role {
	command, _ := c.text("command")
	needs := func(params ...string) {
		for _, name := range params {
			if _, ok := c.args[name]; !ok {
				c.fail("parameter %q is missing", name)
			}
		}
	}
	needs("file_path")
	switch command {
	case "view":
		viewRange(c)
		return tool.RoleRead
	case "create":
		needs("content")
		return tool.RoleWrite
	case "str_replace":
		needs("old_string")
		if _, ok := c.args["new_string"]; !ok {
			c.set("new_string", "") // without new text, the text editor deletes the old text
		}
		return tool.RoleEdit
	case "insert":
		return insert(c)
	case "undo_edit":
		return tool.RoleUndo
	}
	c.fail("parameter \"command\" is %q, and must be view, create, str_replace, insert or undo_edit", command)
	return tool.RoleEdit
}

// insert converts an insertion after a line to a diff without context lines.
func insert(c *call) tool.Role {
	line, ok := c.integer("insert_line")
	if !ok || line < 0 {
		c.fail("parameter \"insert_line\" is not a line number, or 0 for the beginning")
	}
	text, ok := c.text("insert_text")
	if !ok {
		if text, ok = c.text("new_string"); !ok {
			c.fail("parameter \"insert_text\" is missing")
		}
	}
	path, _ := c.text("file_path")
	added := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	c.set("file_path", path)
	c.set("diff", fmt.Sprintf("@@ -%d,0 +%d,%d @@\n+%s\n", line, line+1, len(added), strings.Join(added, "+")))
	return tool.RoleEdit
}

// edits renames the parameters in the elements of a list of edits.
func edits(c *call) {
	raw, ok := c.args["edits"]
	if !ok {
		return
	}
	var list []Args
	if json.Unmarshal([]byte(unquoted(raw)), &list) != nil {
		return
	}
	names := map[string]string{
		"old_str": "old_string", "new_str": "new_string", "oldText": "old_string", "newText": "new_string",
		"oldString": "old_string", "newString": "new_string", "replaceAll": "replace_all", "allow_multiple": "replace_all",
	}
	for _, e := range list {
		for from, to := range names {
			if v, ok := e[from]; ok && e[to] == nil {
				delete(e, from)
				e[to] = v
			}
		}
	}
	delete(c.args, "edits")
	raw, _ = json.Marshal(list) // ignore the error: the elements are valid JSON
	c.set("edits", raw)
}

// expected converts the expected number of replacements. A number above one means that all occurrences are replaced.
func expected(c *call) {
	if n, ok := c.integer("expected_replacements"); ok && n > 1 {
		c.set("replace_all", true)
	}
}

// preview refuses a call that requests a preview, because the tool edit has no preview.
func preview(c *call) {
	if v, ok := c.truth("dryRun"); ok && v {
		c.fail("parameter \"dryRun\" is not supported: edit the file, and undo the edit if the result is wrong")
	}
}

// removal converts the deletion of a file to a patch, because a patch can be undone.
func removal(c *call) {
	if path, ok := c.text("file_path"); ok {
		c.set("diff", "*** Begin Patch\n*** Delete File: "+path+"\n*** End Patch\n")
	}
}

// positional converts a patch that is the only positional argument. In edit, the first positional argument is the file.
func positional(c *call) {
	if raw, ok := c.args["file_path"]; ok && strings.HasPrefix(strings.TrimSpace(unquoted(raw)), "*** Begin Patch") {
		delete(c.args, "file_path")
		c.set("diff", raw)
	}
}

// manyFiles converts a list of files. It refuses patterns, because the tool read accepts only file names.
func manyFiles(c *call) {
	var all []string
	for _, name := range []string{"paths", "include", "files"} {
		if raw, ok := c.take(name); ok {
			list, ok := texts(raw)
			if !ok {
				c.fail("parameter %q is not a list of files", name)
			}
			all = append(all, list...)
		}
	}
	c.drop("recursive", "useDefaultExcludes", "file_filtering_options", "respect_git_ignore") // these parameters apply only to patterns
	for _, path := range all {
		if strings.ContainsAny(path, "*?[{") {
			c.fail("the path %q is a pattern, and the tool takes names: find the files first, then read them", path)
		}
	}
	if len(all) == 0 {
		c.fail("parameter \"paths\" is missing")
		return
	}
	c.set("file_path", all[0])
	if len(all) > 1 {
		c.set("more_files", all[1:])
	}
}

// pages drops an empty range of pages.
func pages(c *call) {
	if raw, ok := c.args["pages"]; ok && (string(raw) == `""` || string(raw) == "null") {
		delete(c.args, "pages")
	}
}

// sliceMode drops the mode that reads lines, because the tool has no other mode.
func sliceMode(c *call) {
	if mode, ok := c.args["mode"]; ok && (unquoted(mode) == "slice" || unquoted(mode) == "text") {
		c.drop("mode", "indentation")
	}
}

// whole drops the line numbers of a call that reads the whole file.
func whole(c *call) {
	if v, ok := c.truth("should_read_entire_file"); ok && v {
		c.drop("start_line", "end_line", "offset", "limit")
	}
}
