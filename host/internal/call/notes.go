// Package notes adds information from the host to the results of tools.
//
// Each note becomes part of the text for the model and of the result's metadata. A frontend needs the metadata if it
// showed the text before the note was added.
package notes

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"
)

// maxDenials limits how many denials a result shows.
const maxDenials = 5

// Annotate sets an entry of the result's metadata.
func Annotate(res *tool.Result, key string, value any) {
	if res.Metadata == nil {
		res.Metadata = make(map[string]any)
	}
	res.Metadata[key] = value
}

// Deprecated adds the deprecated parts of a call to the metadata: the tool and the parameters.
func Deprecated(res *tool.Result, e *tool.Definition, schema *tool.Schema, given map[string]json.RawMessage) {
	var texts []string
	if e.Deprecated != "" {
		texts = append(texts, "tool "+e.Name+": "+e.Deprecated)
	}
	for _, p := range schema.Params() {
		if _, ok := given[p.Name]; ok && p.Deprecated {
			texts = append(texts, "parameter "+p.Name+": "+p.Description)
		}
	}
	if texts != nil {
		Annotate(res, "deprecated", texts)
	}
}

// Denials adds a note with the accesses that the sandbox denied. Programs rarely report such denials.
func Denials(res *tool.Result, denials []string) {
	if len(denials) == 0 {
		return
	}
	shown := slices.Clone(denials[:min(len(denials), maxDenials)])
	if more := len(denials) - maxDenials; more > 0 {
		shown = append(shown, fmt.Sprintf("The sandbox refused %d more operations. Correct the causes above first, and run the command again; the metadata of the result lists all of them", more))
	}
	for _, text := range shown {
		add(res, text)
	}
	Annotate(res, "denied", denials)
}

// Elsewhere adds the session's directory to the text for the model.
func Elsewhere(res *tool.Result, cwd string) { add(res, "The session's directory is "+cwd) }

// Hint adds a note about a failure that the sandbox caused.
func Hint(res *tool.Result, text string) {
	add(res, text)
	Annotate(res, "hint", text)
}

// Quarantined adds a note about each file that was moved to the quarantine.
func Quarantined(res *tool.Result, messages []string) {
	if len(messages) == 0 {
		return
	}
	for _, text := range messages[:min(len(messages), maxDenials)] {
		add(res, text)
	}
	if more := len(messages) - maxDenials; more > 0 {
		add(res, fmt.Sprintf("%d more files were moved to the quarantine. For a list, run: toolhost quarantine list", more))
	}
	Annotate(res, "quarantined", messages)
}

// Previewed adds a note that the call ran in a preview and was accepted, and messages about the changes.
func Previewed(res *tool.Result, changes int, messages []string) {
	all := []string{fmt.Sprintf("The call ran in a preview, and its changes were accepted and made (%d)", changes)}
	if changes == 0 {
		all[0] = "The call ran in a preview and changed no files of the workspace"
	}
	for _, m := range messages {
		all = append(all, strings.TrimSuffix(m, "."))
	}
	for _, text := range all {
		add(res, text)
	}
	Annotate(res, "previewed", all)
}

// Warning adds a note about the confinement of the tool. The operator possibly does not know about the restriction.
func Warning(res *tool.Result, text string) {
	add(res, text)
	Annotate(res, "warning", text)
}

// Unsaved adds a note that the changes of the session are only in memory.
func Unsaved(res *tool.Result, err error) {
	add(res, fmt.Sprintf("The call ended, but the session cannot be saved: %v. The directory, the variables and the file states are lost if toolhost ends now. Free space, or repair the state directory", err))
	Annotate(res, "unsaved", err.Error())
}

// add adds a text to the end of the result.
func add(res *tool.Result, text string) {
	note := "[" + text + ".]"
	if res.Success() {
		res.Output = strings.TrimPrefix(strings.TrimSuffix(res.Output, "\n")+"\n"+note, "\n")
	} else {
		e := *res.Error
		e.Message = strings.TrimSuffix(e.Message, "\n") + "\n" + note
		res.Error = &e
	}
}

// OldDirectory adds a note that the call ran in the directory cwd. The call stopped waiting for a command that can
// change the session's directory.
func OldDirectory(res *tool.Result, cwd, command string) {
	add(res, fmt.Sprintf("This call ran in %s. It did not wait for %s, which can change the directory and has not ended", cwd, command))
	Annotate(res, "directory", cwd)
}

// Directory adds a note that the session stays in the directory cwd, although the command changed to another directory.
// The argument "why" is the reason.
func Directory(res *tool.Result, cwd, why string) {
	note := fmt.Sprintf("[note: the session stays in %s, because %s]", cwd, why)
	Annotate(res, "note", note)
	if res.Success() {
		res.Output = strings.TrimSuffix(res.Output, "\n") + "\n" + note
	} else {
		res.Error.Message += "\n" + note
	}
}

// counterparts maps programs that are often missing to the role of the tool that does the same.
var counterparts = map[string]tool.Role{
	"rg": tool.RoleSearch, "ripgrep": tool.RoleSearch, "ag": tool.RoleSearch, "ack": tool.RoleSearch, "ugrep": tool.RoleSearch,
	"fd": tool.RoleFind, "fdfind": tool.RoleFind, "bat": tool.RoleRead, "batcat": tool.RoleRead,
}

// Counterpart returns the role of the tool that does the same as a program that is often missing, or "".
func Counterpart(program string) tool.Role { return counterparts[program] }

// Similar adds a note with a known name to the result of an unknown command: the tool "same" that does the same as the
// command, or the tool with the most similar name. It adds no note if neither is known.
func Similar(res *tool.Result, name, same string, known []string) {
	similar := suggest.DidYouMean(name, known)
	note := "No tool has that name either." + similar
	if slices.Contains(known, same) {
		note = fmt.Sprintf("The program %s is not installed. Use the tool %s instead; see %[2]s --help.", name, same)
	} else if similar == "" {
		return
	}
	e := *res.Error
	e.Message = strings.TrimRight(e.Message, "\n") + "\n" + note
	res.Error = &e
	if _, other := res.Metadata["note"]; !other { // for frontends, which show the note below the output of the shell
		Annotate(res, "note", note)
	}
}
