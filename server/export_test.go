package server

// Limits of what a session remembers, for tests.
const (
	MaxOvertaken   = maxOvertaken
	MaxOvertakenID = maxOvertakenID
	OvertakenLife  = overtakenLife
)
