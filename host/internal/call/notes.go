package call

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

// NoteDeprecated adds the deprecated parts of a call to the metadata: the tool and the parameters.
func NoteDeprecated(res *tool.Result, e *tool.Definition, schema *tool.Schema, given map[string]json.RawMessage) {
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

// NoteDenials adds a note with the accesses that the sandbox denied. Programs rarely report such denials.
func NoteDenials(res *tool.Result, denials []string) {
	if len(denials) == 0 {
		return
	}
	shown := slices.Clone(denials[:min(len(denials), maxDenials)])
	if more := len(denials) - maxDenials; more > 0 {
		shown = append(shown, fmt.Sprintf("The sandbox refused %d more operations. Correct the causes above first, and run the command again; the metadata of the result lists all of them", more))
	}
	for _, text := range shown {
		addNote(res, text)
	}
	Annotate(res, "denied", denials)
}

// NoteElsewhere adds the session's directory to the text for the model.
func NoteElsewhere(res *tool.Result, cwd string) { addNote(res, "The session's directory is "+cwd) }

// NoteHint adds a note about a failure that the sandbox caused.
func NoteHint(res *tool.Result, text string) {
	addNote(res, text)
	Annotate(res, "hint", text)
}

// NoteQuarantined adds a note about each file that was moved to the quarantine.
func NoteQuarantined(res *tool.Result, messages []string) {
	if len(messages) == 0 {
		return
	}
	for _, text := range messages[:min(len(messages), maxDenials)] {
		addNote(res, text)
	}
	if more := len(messages) - maxDenials; more > 0 {
		addNote(res, fmt.Sprintf("%d more files were moved to the quarantine. For a list, run: toolhost quarantine list", more))
	}
	Annotate(res, "quarantined", messages)
}

// NotePreviewed adds a note that the call ran in a preview and was accepted, and messages about the changes.
func NotePreviewed(res *tool.Result, changes int, messages []string) {
	all := []string{fmt.Sprintf("The call ran in a preview, and its changes were accepted and made (%d)", changes)}
	if changes == 0 {
		all[0] = "The call ran in a preview and changed no files of the workspace"
	}
	for _, m := range messages {
		all = append(all, strings.TrimSuffix(m, "."))
	}
	for _, text := range all {
		addNote(res, text)
	}
	Annotate(res, "previewed", all)
}

// NoteWarning adds a note about the confinement of the tool. The operator possibly does not know about the restriction.
func NoteWarning(res *tool.Result, text string) {
	addNote(res, text)
	Annotate(res, "warning", text)
}

// NoteUnsaved adds a note that the changes of the session are only in memory.
func NoteUnsaved(res *tool.Result, err error) {
	addNote(res, fmt.Sprintf("The call ended, but the session cannot be saved: %v. The directory, the variables and the file states are lost if toolhost ends now. Free space, or repair the state directory", err))
	Annotate(res, "unsaved", err.Error())
}

// addNote adds a text to the end of the result.
func addNote(res *tool.Result, text string) {
	note := "[" + text + ".]"
	if res.Success() {
		res.Output = strings.TrimPrefix(strings.TrimSuffix(res.Output, "\n")+"\n"+note, "\n")
	} else {
		e := *res.Error
		e.Message = strings.TrimSuffix(e.Message, "\n") + "\n" + note
		res.Error = &e
	}
}

// NoteOldDirectory adds a note that the call ran in the directory cwd. The call stopped waiting for a command that can
// change the session's directory.
func NoteOldDirectory(res *tool.Result, cwd, command string) {
	addNote(res, fmt.Sprintf("This call ran in %s. It did not wait for %s, which can change the directory and has not ended", cwd, command))
	Annotate(res, "directory", cwd)
}

// NoteDirectory adds a note that the session stays in the directory cwd, although the command changed to another
// directory. The argument "why" is the reason.
func NoteDirectory(res *tool.Result, cwd, why string) {
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

// NoteSimilar adds a note with a known name to the result of an unknown command: the tool "same" that does the same as
// the command, or the tool with the most similar name. It adds no note if neither is known.
func NoteSimilar(res *tool.Result, name, same string, known []string) {
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
