//go:build soak

package serverhttp_test

// manyStreams comes close to the default limit of the server. Each stream takes
// two file descriptors: ulimit -n must allow for 20,000.
const manyStreams = 9000
