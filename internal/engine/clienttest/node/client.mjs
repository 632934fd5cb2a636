// Uses the endpoint as an application does with the official Node client. Arguments: URL, database, user, password.
// It prints one line for each thing that held, and ends with exit code 1 at the first that did not.
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { createClient } from '@clickhouse/client'

const [url, database, username, password] = process.argv.slice(2)

for (const compression of [
  { request: false, response: false },
  { request: true, response: true },
]) {
  const name = compression.request ? 'gzip' : 'plain'
  const client = createClient({ url, database, username, password, compression })
  const table = `node_${name}`

  const ping = await client.ping()
  assert.equal(ping.success, true)
  console.log(`${name}: ping`)

  await client.command({ query: `CREATE TABLE ${table} (id UInt64, name String, tags Array(String)) ENGINE = MergeTree ORDER BY id` })
  const inserted = await client.insert({
    table, format: 'JSONEachRow',
    values: [{ id: '1', name: "a'b\n\"c", tags: ['x'] }, { id: '2', name: 'ü', tags: [] }],
  })
  assert.equal(inserted.summary.written_rows, '2')
  await client.insert({
    table, format: 'CSV', columns: ['id', 'name'],
    values: Readable.from(Array.from({ length: 1000 }, (_, i) => `${i + 3},"row ${i}"\n`), { objectMode: false }),
  })
  console.log(`${name}: insert`)

  const rows = await (await client.query({
    query: `SELECT id, name, tags FROM ${table} WHERE id <= {max:UInt64} AND name != {not:String} ORDER BY id`,
    query_params: { max: 2, not: "it's" }, format: 'JSON',
  })).json()
  assert.equal(rows.rows, 2)
  assert.deepEqual(rows.meta.map((m) => m.type), ['UInt64', 'String', 'Array(String)'])
  assert.deepEqual(rows.data[0], { id: 1, name: "a'b\n\"c", tags: ['x'] })
  console.log(`${name}: parameters and JSON`)

  const empty = await (await client.query({ query: `SELECT * FROM ${table} WHERE id = 0`, format: 'JSON' })).json()
  assert.equal(empty.rows, 0)
  assert.deepEqual(empty.data, [])
  assert.equal(empty.meta.length, 3)
  console.log(`${name}: empty result`)

  const large = await (await client.query({ query: 'SELECT number AS n FROM numbers(300000)', format: 'JSON' })).json()
  assert.equal(large.rows, 300000)
  assert.equal(large.data.length, 300000)
  assert.equal(Number(large.data[299999].n), 299999)
  let streamed = 0
  const set = await client.query({ query: 'SELECT number FROM numbers(300000)', format: 'JSONEachRow' })
  for await (const part of set.stream()) streamed += part.length
  assert.equal(streamed, 300000)
  console.log(`${name}: streams`)

  const csv = await (await client.query({ query: 'SELECT 1 AS a, 2 AS b', format: 'CSVWithNames' })).text()
  assert.equal(csv, '"a","b"\n1,2\n')
  const one = await (await client.query({
    query: "SELECT getSetting('max_threads') AS t", clickhouse_settings: { max_threads: 1 }, query_id: `node-${name}`, format: 'JSONEachRow',
  })).json()
  assert.equal(Number(one[0].t), 1)
  console.log(`${name}: formats and settings`)

  await assert.rejects(client.query({ query: 'SELECT nope FROM nowhere' }), (e) => e.code === '60' && e.type === 'UNKNOWN_TABLE')
  const late = await client.query({ query: 'SELECT throwIf(number = 500000) FROM numbers(10000000)', format: 'JSONEachRow', clickhouse_settings: { max_threads: 1 } })
  await assert.rejects(async () => { for await (const part of late.stream()) void part })
  console.log(`${name}: errors`)

  const controller = new AbortController()
  const slow = client.query({ query: 'SELECT count() FROM numbers(1000000000000) WHERE NOT ignore(sipHash64(number))', query_id: `slow-${name}`, abort_signal: controller.signal })
  setTimeout(() => controller.abort(), 200)
  await assert.rejects(slow)
  console.log(`${name}: abort`)
  await client.close()
}

const wrong = createClient({ url, username, password: 'wrong' })
await assert.rejects(wrong.query({ query: 'SELECT 1' }), (e) => e.code === '516')
await wrong.close()
console.log('wrong password')
