//go:build !race

package growthtest

// raceDetector reports that the race detector is on.
const raceDetector = false
