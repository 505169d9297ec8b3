package main

import (
	"encoding/json"
	"regexp"
	"strings"

	"toolhost.dev/host"
)

// jobNotes matches the notes of bash that promise a job.
var jobNotes = regexp.MustCompile(`^\[The command .* the job job-[0-9a-f]+`)

// jobsEnd is what is true of the jobs of a single run.
const jobsEnd = "[The processes that the command left running end now, because toolhost run ends them. For jobs, use toolhost repl, batch, mcp or serve.]"

// endJobs takes the promise of a job out of the result of a single run, whose processes end with the program. It returns a
// note about them, or "" if the command left none.
func endJobs(res *host.Result) string {
	var data map[string]json.RawMessage
	if res.Run.Tool != "bash" || json.Unmarshal(res.Data, &data) != nil {
		return ""
	}
	if id := string(data["job_id"]); id == "" || id == `""` {
		return ""
	}
	data["job_id"] = json.RawMessage(`""`)
	if out, err := json.Marshal(data); err == nil { // it cannot fail, because the parts are JSON
		res.Data = out
	}
	if res.Success() {
		res.Output = withoutJob(res.Output)
	} else {
		e := *res.Error
		e.Message = withoutJob(e.Message)
		res.Error = &e
	}
	return jobsEnd
}

// withoutJob replaces the notes about a job.
func withoutJob(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if !jobNotes.MatchString(line) {
			lines = append(lines, line)
		}
	}
	return strings.TrimPrefix(strings.TrimSuffix(strings.Join(lines, ""), "\n")+"\n"+jobsEnd, "\n")
}
