package sqlstore

import (
	"database/sql"
	"errors"
	"slices"
	"strings"
)

// A Dialect is a database's SQL dialect. The zero value is [PostgreSQL].
type Dialect int

const (
	// PostgreSQL 11 or newer, with any driver whose placeholders are $1, such as pgx and pq.
	PostgreSQL Dialect = iota
	// SQLite means version 3.35 or newer, with any driver, on one machine. Have the driver wait for
	// locks (busy_timeout), and use journal mode WAL.
	SQLite
)

// words replaces the placeholders that differ between dialects.
func (d Dialect) words() *strings.Replacer {
	if d == PostgreSQL {
		return strings.NewReplacer(
			"{now}", "cast(extract(epoch from clock_timestamp()) * 1000 as bigint)",
			"{max}", "greatest", "{bytes}", "bytea", "{skip locked}", "for update skip locked",
			"{lock}", "for update")
	}
	return strings.NewReplacer(
		"{now}", "cast((julianday('now') - 2440587.5) * 86400000 as integer)",
		"{max}", "max", "{bytes}", "blob", "{skip locked}", "",
		"{lock}", "")
}

// write returns a statement in the dialect. Parameters are $1, $2 and so on, each once and in
// order, because some SQLite drivers know only plain question marks.
func (d Dialect) write(statement string) string {
	if d == PostgreSQL {
		return d.words().Replace(statement)
	}
	var b strings.Builder
	for i, part := range strings.Split(statement, "$") {
		if i > 0 {
			b.WriteByte('?')
			part = strings.TrimLeft(part, "0123456789")
		}
		b.WriteString(part)
	}
	return d.words().Replace(b.String())
}

// isolation makes PostgreSQL statements see later commits; SQLite serializes writers.
func (d Dialect) isolation() *sql.TxOptions {
	if d == PostgreSQL {
		return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	}
	return nil
}

// isFinal reports whether repeating a refused statement at once is useless. It knows drivers'
// errors by their methods; others count as connection errors, which may pass.
func (d Dialect) isFinal(err error) bool {
	if errors.Is(err, errSchema) || errors.Is(err, errDataType) {
		return true
	}
	if e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return !isTransientState(e.SQLState())
	}
	if e, ok := errors.AsType[interface {
		error
		Code() int
	}](err); ok {
		const busy, locked = 5, 6
		code := e.Code() & 0xff
		return code != busy && code != locked
	}
	return false
}

// isTransientState reports whether a PostgreSQL error code is transient: a conflict with another
// transaction, or a server that starts, stops or has no free connection.
func isTransientState(code string) bool {
	return slices.ContainsFunc([]string{"08", "40", "53300", "57P0", "55P03"},
		func(prefix string) bool { return strings.HasPrefix(code, prefix) })
}
