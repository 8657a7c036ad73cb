package middleware_test

import (
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// The series of each event are in the table.
func TestEveryEventIsCounted(t *testing.T) {
	lacking := protocol.ClientCapabilities{Roots: &protocol.RootsCapability{}}
	for want, e := range map[string]event.Event{
		"rondo_state_rejections_total":    event.StateRejected{},
		"rondo_dropped_answers_total":     event.AnswersDropped{Dropped: make([]event.Dropped, 1)},
		"rondo_human_wait_seconds":        event.Resumed{},
		"rondo_input_required_total":      event.InputRequested{Kinds: []protocol.InputKind{""}},
		"rondo_state_bytes":               event.InputRequested{StateBytes: 1},
		"rondo_answers_total":             event.Answered{},
		"rondo_form_answers_total":        event.Answered{Way: words.WayForm},
		"rondo_invalid_answers_total":     event.AnswerInvalid{},
		"rondo_ignored_declines_total":    event.DeclineIgnored{},
		"rondo_flows_ended_total":         event.FlowEnded{},
		"rondo_flow_rounds":               event.FlowEnded{},
		"rondo_capability_refusals_total": event.CapabilityRefused{Missing: lacking},
		"rondo_handler_failures_total":    event.HandlerFailed{},
		"rondo_handler_panics_total":      event.HandlerPanicked{},
		"rondo_server_bugs_total":         event.ServerBug{},
		"rondo_quota_refusals_total":      event.QuotaExceeded{},
		"rondo_push_failures_total":       event.PushFailed{},
		"rondo_request_waiting_seconds":   event.WaitEnded{Waited: time.Second},
		"rondo_cut_off_total":             event.CutOff{},
		"rondo_store_failures_total":      event.StoreFailed{},
		"rondo_reworded_questions_total":  event.QuestionReworded{},
		"rondo_sessions_evicted_total":    event.SessionEvicted{},
		"rondo_forwarded_requests_total":  event.RequestForwarded{},
		"rondo_line_refusals_total":       event.RequestRefused{},
		"rondo_http_refusals_total":       event.RequestRefused{Status: 400},
	} {
		w := newWatch(t, nil, nil)
		w.metrics.Observe(t.Context(), e)
		w.wantValue(1, want)
	}
}
