import React from 'react';
type Props<T> = { items: T[]; render: (item: T) => JSX.Element };
export function List<T,>({ items, render }: Props<T>) {
  const [state, setState] = React.useState<string>('');
  const onClick = () => setState('function notCode() {}');
  return <ul onClick={onClick}>{items.map((i) => <li key={`${i} class No {}`}>{render(i)} function text() &amp; class more</li>)}</ul>;
}
export const Button: React.FC<{ label: string }> = ({ label }) => <button>{label}</button>;
const Memo = React.memo(function Named() { return <></>; });
export default Memo;
class Legacy extends React.Component<Props<string>> { render() { return <List<string> items={[]} render={(x) => <b>{x}</b>} />; } }
