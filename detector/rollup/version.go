package rollup

import "fmt"

// A cell's version must grow with every change of what the cell is made of, by whichever
// replica and whatever the clocks do, for the highest version is the one that is shown. So it
// is made of what only grows: the number of base rows of the cell's time, tombstones included,
// plus their revisions. Each new key adds a row and each newer revision adds to the sum, and
// rows leave the base tables later than their minutes are computed for the last time.
//
// From the highest bit down:
//
//   - 1 bit, set. Versions were once the newest stored_at in milliseconds times 2^20, which
//     stays below it until the year 2248, so what is computed after an upgrade wins.
//   - sumBits of sum(revision + 1), for coarser tiers the sum over their minutes. They hold
//     68e9: a service would need 400,000 rows of revision 1 a second for a day to fill it. A
//     revision counts as at most maxRevision, so that a hostile row cannot fill it either;
//     an honest one gets there by a snapshot each ten seconds for a week.
//   - tieBits of the newest stored_at in seconds. A row that replaces one of its own revision
//     (from a collector that lost its state) changes nothing else. Only here does a clock
//     count, and only for such rows and those beyond the bounds above.
const (
	versionFlag = 1 << 63
	sumBits     = 36
	tieBits     = 27
	maxRevision = 1<<16 - 1
	// oldShift is how far versions without versionFlag have stored_at shifted.
	oldShift = 20
)

// minuteRows adds up a minute's rows and their revisions.
var minuteRows = fmt.Sprintf("sum(least(revision, %d) + 1)", maxRevision)

// rowsOfVersion and newestOfVersion take a source's version apart. One without the flag
// counts for no rows, which is below what its cell counts once it is computed anew.
var (
	rowsOfVersion   = fmt.Sprintf("if(version >= %d, bitAnd(bitShiftRight(version, %d), %d), 0)", uint64(versionFlag), tieBits, 1<<sumBits-1)
	newestOfVersion = fmt.Sprintf("if(version >= %d, bitAnd(version, %d), intDiv(bitShiftRight(version, %d), 1000) %% %d)", uint64(versionFlag), 1<<tieBits-1, oldShift, 1<<tieBits)
)

// version puts a version together from the newest stored_at in seconds and the sum of rows.
func version(newest, rows string) string {
	return fmt.Sprintf("toUInt64(%d + least(toUInt64(%s), %d) * %d + toUInt64(%s) %% %d)", uint64(versionFlag), rows, 1<<sumBits-1, 1<<tieBits, newest, 1<<tieBits)
}
