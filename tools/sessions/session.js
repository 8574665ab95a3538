// A session that has much and is asked little: `session.js MIB`. Each line on standard input is a request, which reads an eighth.
const rows = Number(process.argv[2]) * 5200;
const table = [];
for (let row = 0; row < rows; row++) table.push({ key: `key-${row}`, row, text: `value of row ${row} in a table`, list: [row % 7, row % 11] });
let number = 0;
require('readline').createInterface({ input: process.stdin }).on('line', () => {
  const from = Math.floor((number % 8) * rows / 8), to = Math.floor((number % 8 + 1) * rows / 8);
  let sum = 0;
  for (let at = from; at < to; at++) sum += table[at].row + table[at].text.length;
  number++;
  console.log(sum);
});
console.log('ready');
