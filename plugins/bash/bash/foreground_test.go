package bash

import (
	"strings"
	"testing"
	"time"

	"toolhost.dev/plugins/bash/jobs"
	"toolhost.dev/sdk/tool"
)

// foreground starts a command and returns its entry in the job list as soon as the entry exists. The channel receives
// the command's result.
func (s *sess) foreground(command string) (jobState, <-chan *answered) {
	s.t.Helper()
	ended := make(chan *answered, 1)
	go func() {
		a := s.call(s.t.Context(), args{Command: command})
		ended <- &answered{a.Error, a.JobID, a.text()}
	}()
	for range 2000 {
		if list := s.job(jobArgs{Action: "list"}).Jobs; len(list) > 0 {
			return list[0], ended
		}
		time.Sleep(5 * time.Millisecond)
	}
	s.t.Fatal("the command is not listed")
	return jobState{}, nil
}

type answered struct {
	err  *tool.Error
	job  string
	text string
}

// TestAForegroundCommandIsReachable checks that, while a call waits for its command, other calls can list the command,
// kill it, and move it to the background.
func TestAForegroundCommandIsReachable(t *testing.T) {
	eachWay(t, func(t *testing.T, h *host) {
		s := h.session()
		j, ended := s.foreground("sleep 1000")
		if !j.Foreground || !j.Running || !strings.Contains(s.job(jobArgs{Action: "list"}).Output, "running in the foreground for") {
			t.Errorf("%+v", j)
		}
		if a := s.job(jobArgs{Action: "kill", ID: j.ID}); a.Error != nil {
			t.Error(a.Error)
		}
		if a := <-ended; a.err == nil || a.err.Code != 128+9 || !strings.Contains(a.text, "The tool job killed the command") {
			t.Errorf("%+v", a)
		}
		if list := s.job(jobArgs{Action: "list"}).Jobs; len(list) > 0 {
			t.Errorf("a command that ended is listed: %+v", list)
		}

		j, ended = s.foreground("cd /; sleep 1000")
		if a := s.job(jobArgs{Action: "background", ID: j.ID}); a.Error != nil || !strings.Contains(a.Output, j.ID) {
			t.Errorf("%+v", a)
		}
		if a := <-ended; a.err != nil || a.job != j.ID || !strings.Contains(a.text, "was sent to the background and continues as the job "+j.ID) {
			t.Errorf("%+v", a)
		}
		if list := s.job(jobArgs{Action: "list"}).Jobs; len(list) != 1 || list[0].ID != j.ID || list[0].Foreground || !list[0].Running {
			t.Errorf("%+v", list)
		}
		if a := s.job(jobArgs{Action: "background", ID: j.ID}); a.Error == nil || !strings.Contains(a.Error.Message, "in the background already") {
			t.Errorf("%+v", a)
		}
		if a := s.job(jobArgs{Action: "kill", ID: j.ID}); a.Error != nil {
			t.Error(a.Error)
		}
		s.ok("true")
	})
}

// TestForegroundCommandsDoNotCount checks that foreground commands do not count against the limit of jobs. It also
// checks that a command stays in the foreground if the limit is reached.
func TestForegroundCommandsDoNotCount(t *testing.T) {
	s := newHost(t).session()
	j, ended := s.foreground("sleep 1000")
	for range jobs.MaxRunning {
		s.background("sleep 1000")
	}
	if a := s.job(jobArgs{Action: "background", ID: j.ID}); a.Error == nil || !strings.Contains(a.Error.Message, "Too many jobs") {
		t.Errorf("%+v", a)
	}
	for _, j := range s.job(jobArgs{Action: "list"}).Jobs {
		s.job(jobArgs{Action: "kill", ID: j.ID})
	}
	if a := <-ended; a.err == nil {
		t.Errorf("%+v", a)
	}
}
