package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"toolhost.dev/host"
	"toolhost.dev/sdk/tool"
)

// Supervised returns a client that queues permission asks as long as people can answer them through another host.
// Otherwise the client answers that there is nobody to ask. The caller must pass the queue to [host.Host.OfferAsks].
// The argument "name" is the name of the caller that people see.
func (q *Asks) Supervised(h *host.Host, name string) host.Client {
	return &supervisedAsker{asker{q: q, principal: name}, h}
}

type supervisedAsker struct {
	asker
	host *host.Host
}

// Supervised reports whether people can answer through another host now.
func (a *supervisedAsker) Supervised(ctx context.Context) bool { return a.host.Supervised(ctx) }

// Ask implements [host.Client].
func (a *supervisedAsker) Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	if !a.Supervised(ctx) {
		return tool.Answer{Outcome: tool.NobodyToAsk, Message: "no other host with a console runs"}, nil
	}
	return a.asker.Ask(ctx, ask)
}

// Open implements [host.AskQueue].
func (q *Asks) Open() (json.RawMessage, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return json.Marshal(append([]*asked{}, q.waiting...))
}

// otherAnswer is an answer that a person gave through another host.
type otherAnswer struct {
	answerBody
	ID string `json:"id"`
	By string `json:"by"`
}

// Answer implements [host.AskQueue]. The other host has checked the rights of the principal.
func (q *Asks) Answer(body json.RawMessage) error {
	var given otherAnswer
	if err := json.Unmarshal(body, &given); err != nil {
		return err
	}
	a := q.find(given.ID)
	if a != nil && given.Digest != "" && given.Digest != a.Digest {
		return fmt.Errorf("the answer is for another content of the ask; read GET /v1/asks again")
	}
	if a = q.take(given.ID); a == nil {
		return notOpen(given.ID)
	}
	a.answer <- tool.Answer{Outcome: given.Outcome, Values: given.Values, Message: given.Message, By: given.By}
	return nil
}

// otherAsks caches the open asks of other hosts for a short time, because each open page of the console reads them
// often.
type otherAsks struct {
	mu   sync.Mutex
	at   time.Time
	list []*asked
}

const otherAsksLife = 500 * time.Millisecond

// get returns the open asks of other hosts. Their ids begin with the id of the process and a dot.
func (o *otherAsks) get(ctx context.Context, h *host.Host) []*asked {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.at) < otherAsksLife {
		return o.list
	}
	o.list = nil
	for pid, raw := range h.AsksOfOthers(ctx) {
		var list []*asked
		if json.Unmarshal(raw, &list) != nil { // another version of the host can use a different format
			continue
		}
		for _, a := range list {
			a.ID = strconv.Itoa(pid) + "." + a.ID
		}
		o.list = append(o.list, list...)
	}
	slices.SortFunc(o.list, func(a, b *asked) int { return a.Since.Compare(b.Since) })
	o.at = time.Now()
	return o.list
}

// answerOther answers an ask of another host. It reports whether the id belongs to such an ask.
func (s *server) answerOther(w http.ResponseWriter, r *http.Request, id string, given *answerBody) bool {
	number, rest, ok := strings.Cut(id, ".")
	pid, err := strconv.Atoi(number)
	if !ok || err != nil {
		return false
	}
	list := s.others.get(r.Context(), s.host)
	i := slices.IndexFunc(list, func(a *asked) bool { return a.ID == id })
	if i < 0 || !list[i].sees(Principal(r.Context())) {
		return false
	}
	if code, kind, why := list[i].forbids(Principal(r.Context()), given); code != 0 {
		refuse(w, code, kind, why)
		return true
	}
	body, err := json.Marshal(otherAnswer{*given, rest, who(r).Name})
	if err == nil {
		err = s.host.AnswerOther(r.Context(), pid, body)
	}
	s.others.mu.Lock()
	s.others.at = time.Time{}
	s.others.mu.Unlock()
	if err != nil {
		refuse(w, http.StatusNotFound, tool.NotFound, err.Error())
		return true
	}
	reply(w, http.StatusOK, map[string]any{"id": id, "outcome": given.Outcome})
	return true
}
