package main

import (
	"context"
	"fmt"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// Booking is what the tool takes; its schema is derived from it.
type Booking struct {
	Name string `json:"name" jsonschema:"on whose name"`
}

// The forms that the person fills in.
type (
	Evening struct {
		Day    string `json:"day" title:"Day" enum:"fri,sat" enumTitles:"Friday,Saturday"`
		Guests int    `json:"guests,omitempty" title:"Guests" minimum:"1" maximum:"12" default:"2"`
	}
	Seat struct {
		Place string `json:"place" title:"Place" enum:"window,garden"`
	}
)

// Both are checked when the program starts.
var (
	evening = roundtrip.MustQuestion[Evening]("evening")
	seat    = roundtrip.MustQuestion[Seat]("seat")
)

// book asks two questions, the second of which depends on the first. It knows
// nothing of revisions, transports and sessions.
func book(ctx context.Context, call *server.ToolCall,
	in Booking) (protocol.CallToolOutcome, error) {
	when, ok := evening.AcceptedContent(ctx)
	if !ok {
		return roundtrip.InputRequired(evening.Elicit("Which evening?")), nil
	}
	switch where := seat.Answer(ctx); where.Outcome {
	case roundtrip.Accepted:
		return server.Text(fmt.Sprintf("%s, %s, %d guests: %s",
			in.Name, when.Day, when.Guests, where.Content.Place)), nil
	case roundtrip.Declined, roundtrip.Cancelled:
		return server.Text("nothing is booked"), nil
	default: // missing or invalid
		return roundtrip.InputRequired(seat.Elicit(fmt.Sprintf("Where, for %d?", when.Guests))), nil
	}
}

// newServer is the whole server.
func newServer() (*server.Server, error) {
	srv, err := server.New(&server.Options{
		Info: protocol.Implementation{Name: "writeonce", Version: "1.0.0"}})
	if err != nil {
		return nil, err
	}
	server.AddTool(srv,
		server.Tool{Name: "book", Description: "Books a table, after asking."}, book)
	return srv, nil
}
