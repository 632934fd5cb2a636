// Command exporterbench writes the same spans with contrib's clickhouseexporter and with
// genaiclickhouse into one embedded engine, in turns, and compares spans per second and bytes
// on disk. contrib gets the spans as an SDK sends them, genaiclickhouse gets them as
// genaisegment hands them on, with their findings.
package main
